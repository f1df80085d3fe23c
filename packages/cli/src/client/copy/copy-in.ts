import { constants } from 'node:fs'
import { open, readdir, readlink, stat } from 'node:fs/promises'
import { basename, join, posix, resolve } from 'node:path'
import { DormouseError, type FileStat, type Sandbox } from 'dormouse'
import { CliError } from '../cli-error.ts'
import { runCopies } from './run-copies.ts'

export interface Copied {
  files: number
  bytes: number
}

export interface CopyOptions {
  readonly user: string | undefined
  readonly wake: boolean
  readonly signal: AbortSignal
  readonly copied: Copied
  readonly onBytes: (bytes: number) => void
}

type Inside = Pick<Sandbox, 'files' | 'commands'>

/**
 * Copies a local file or directory into a sandbox, like `cp -r`: into an existing directory, else under the given
 * name.
 */
export async function copyIn(inside: Inside, from: string, to: string, options: CopyOptions): Promise<void> {
  const source = await stat(from)
  const found = await findStat(inside, to, options)
  if (to.endsWith('/') && found === undefined && !source.isDirectory())
    throw new CliError('not_found', `The sandbox has no directory ${to}`)
  const isInto = found?.type === 'directory' && !namesContents(from)
  const target = isInto ? posix.join(to, basename(resolve(from))) : to
  if (!source.isDirectory()) return copyFile(inside, from, target, options)
  const work = await makeDirectories(inside, from, target, options)
  await runCopies(work.files, (path) => copyFile(inside, join(from, path), posix.join(target, path), options))
  for (const path of work.links) await copyLink(inside, join(from, path), posix.join(target, path), options)
}

/** `dir/.` and `.` mean the contents of a directory, without its own name. */
export function namesContents(path: string): boolean {
  return /(^|\/)\.$/.test(path)
}

async function findStat(
  { files }: Inside,
  path: string,
  { user, signal }: CopyOptions,
): Promise<FileStat | undefined> {
  try {
    return await files.stat(path, { user, signal })
  } catch (error) {
    if (error instanceof DormouseError && error.code === 'not_found') return undefined
    throw error
  }
}

/** Makes all directories and lists the files and links to copy. Skips sockets and devices. */
async function makeDirectories({ files }: Inside, from: string, to: string, { user, signal }: CopyOptions) {
  const work = { files: [] as string[], links: [] as string[] }
  const walk = async (path: string): Promise<void> => {
    signal.throwIfAborted()
    await files.mkdir(posix.join(to, path), {
      user,
      signal,
      mode: octal((await stat(join(from, path))).mode),
    })
    for (const entry of await readdir(join(from, path), { withFileTypes: true })) {
      const below = posix.join(path, entry.name)
      if (entry.isDirectory()) await walk(below)
      else if (entry.isSymbolicLink()) work.links.push(below)
      else if (entry.isFile()) work.files.push(below)
    }
  }
  await walk('')
  return work
}

async function copyFile({ files }: Inside, from: string, to: string, options: CopyOptions): Promise<void> {
  const { user, signal, copied, onBytes } = options
  const handle = await open(from, constants.O_RDONLY)
  try {
    const { mode, size } = await handle.stat()
    const counted = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        onBytes(piece.byteLength)
        controller.enqueue(piece)
      },
    })
    const body = handle.readableWebStream({ type: 'bytes' } as never) as ReadableStream<Uint8Array>
    // The request would wait for ever for the end of an empty stream.
    const content = size === 0 ? new Uint8Array() : body.pipeThrough(counted)
    await files.write(to, content, { user, signal, mode: octal(mode), parents: false })
    copied.files += 1
  } finally {
    // The stream of the body may have closed it. Nothing was written that could be lost.
    await handle.close().catch(() => {})
  }
}

async function copyLink(
  { commands }: Inside,
  from: string,
  to: string,
  { user, signal }: CopyOptions,
): Promise<void> {
  const args = ['ln', '-sfn', '--', await readlink(from), to]
  const { exitCode, stderr } = await commands.run(args, { signal, ...(user === undefined ? {} : { user }) })
  if (exitCode !== 0) throw new CliError('link_failed', `Cannot make the link ${to}: ${stderr.trim()}`)
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0')
}
