import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import type { ProcessConnection } from '@dormouse/engine'
import { inSandbox, type StepParts, whileItLives } from '../run-step.ts'
import { findSources, isBelow } from './find-sources.ts'
import type { Copy } from './recipe.ts'
import type { BaseFiles, CopyInto, CopySource, InSandbox } from './run-recipe.ts'
import { RUNTIME_PYTHON } from './run-recipe.ts'
import type { TarEntry } from './tar-entries.ts'

const PROGRAM = [RUNTIME_PYTHON, '-I', '-B', '/.dormouse/guest/dormouse_build']

/** The files that a client sent for a build. */
export interface BuildContext {
  readonly archive: string
  readonly entries: readonly TarEntry[]
}

/** Copies from the context. Throws `invalid_argument` when a source matches nothing. */
export function copyFromContext(context: BuildContext | undefined, copy: Copy): CopySource {
  if (context === undefined)
    throw new DormouseError(
      'invalid_argument',
      `There is no context to copy ${copy.sources.join(', ')} from.`,
      {
        details: { field: 'context' },
      },
    )
  const roots = copy.sources.flatMap((source) => findSources(context.entries, source))
  const copied = context.entries.filter(({ path }) => roots.some((root) => isBelow(path, root.path)))
  const listing = copied.map(({ path, digest }) => [path, digest]).sort()
  return {
    key: createHash('sha256')
      .update(JSON.stringify([listing, roots]))
      .digest('hex'),
    copyInto: (parts, into) =>
      unpackInto(parts, into, {
        bytes: createReadStream(context.archive),
        roots: roots.map(({ path, isDirectory, name }) => [path, isDirectory, name]),
      }),
  }
}

/** Copies from another stage or image, which a sandbox of its own reads. */
export function copyFromFiles(files: BaseFiles): CopySource {
  return {
    key: files.key,
    copyInto: (parts, into) =>
      inSandbox(parts, files.origin, async (sandbox, burrow) => {
        const args = [...PROGRAM, 'pack', JSON.stringify(into.copy.sources)]
        const packing = await connect({ sandbox, burrow }, args, parts.signal)
        await unpackInto(parts, into, { bytes: outputOf(packing, parts), roots: null })
        await requireSuccess(packing, parts)
      }),
  }
}

interface Archive {
  readonly bytes: AsyncIterable<Uint8Array>
  readonly roots: readonly (readonly [path: string, isDirectory: boolean, name: string])[] | null
}

async function unpackInto(
  parts: StepParts,
  { inside, copy, cwd }: CopyInto,
  archive: Archive,
): Promise<void> {
  const { to, unpacks, chown, chmod } = copy
  const destination = {
    to,
    cwd,
    unpacks,
    roots: archive.roots,
    keepsOwners: archive.roots === null,
    chown,
    chmod,
  }
  const args = [...PROGRAM, 'unpack', JSON.stringify(destination)]
  const unpacking = await connect(inside, args, parts.signal)
  await whileItLives(inside.sandbox, inside.burrow, async () => {
    const said = logOutput(unpacking, parts)
    for await (const piece of archive.bytes) if (!(await unpacking.write(piece))) break
    unpacking.end()
    await said
    await requireSuccess(unpacking, parts)
  })
}

function connect(
  { burrow }: InSandbox,
  args: readonly string[],
  signal: AbortSignal,
): Promise<ProcessConnection> {
  return burrow.guest.processes.connect({ args, user: 'root', cwd: '/', env: {} }, { signal })
}

async function logOutput(process: ProcessConnection, { log }: StepParts): Promise<void> {
  for await (const { data } of process.output) log.write(Buffer.from(data).toString())
}

async function* outputOf(process: ProcessConnection, { log }: StepParts): AsyncIterable<Uint8Array> {
  for await (const { stream, data } of process.output) {
    if (stream === 'stdout') yield data
    else log.write(Buffer.from(data).toString())
  }
}

async function requireSuccess(process: ProcessConnection, { log }: StepParts): Promise<void> {
  const { exitCode } = await process.exit
  if (exitCode === 0) return
  throw new DormouseError(
    'setup_failed',
    `The files could not be copied: ${log.lastLine ?? `exit code ${exitCode}`}.`,
  )
}
