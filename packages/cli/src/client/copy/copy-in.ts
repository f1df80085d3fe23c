import { constants } from 'node:fs'
import { open, readdir, readlink, stat } from 'node:fs/promises'
import { basename, join, posix, resolve } from 'node:path'
import { DormouseError, type FileStat, type Sandbox } from 'dormouse'
import { atOnce } from '../at-once.ts'
import { Problem } from '../problem.ts'

export interface Copied {
  files: number
  bytes: number
}

export interface How {
  readonly user: string | undefined
  readonly signal: AbortSignal
  readonly copied: Copied
  readonly onBytes: (bytes: number) => void
}

type Inside = Pick<Sandbox, 'files' | 'commands'>

/** Copies a local file or directory into a sandbox. Like `cp -r`: into a directory that exists, else under the name given. */
export async function copyIn(inside: Inside, from: string, to: string, how: How): Promise<void> {
  const source = await stat(from)
  const found = await findStat(inside, to, how)
  if (to.endsWith('/') && found === undefined && !source.isDirectory())
    throw new Problem('not_found', `There is no directory ${to} in the sandbox`)
  const isInto = found?.type === 'directory' && !namesContents(from)
  const target = isInto ? posix.join(to, basename(resolve(from))) : to
  if (!source.isDirectory()) return copyFile(inside, from, target, how)
  const work = await makeDirectories(inside, from, target, how)
  await atOnce(work.files, (path) => copyFile(inside, join(from, path), posix.join(target, path), how))
  for (const path of work.links) await copyLink(inside, join(from, path), posix.join(target, path), how)
}

/** `dir/.`, or `.`: what is in it, and not under its own name. */
export function namesContents(path: string): boolean {
  return /(^|\/)\.$/.test(path)
}

async function findStat(
  { files }: Inside,
  path: string,
  { user, signal }: How,
): Promise<FileStat | undefined> {
  try {
    return await files.stat(path, { user, signal })
  } catch (error) {
    if (error instanceof DormouseError && error.code === 'not_found') return undefined
    throw error
  }
}

/** Directories first, so that files find theirs. Sockets and devices are left out. */
async function makeDirectories({ files }: Inside, from: string, to: string, { user, signal }: How) {
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

async function copyFile({ files }: Inside, from: string, to: string, how: How): Promise<void> {
  const { user, signal, copied, onBytes } = how
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
    // An empty stream has no end that the request could wait for.
    const content = size === 0 ? new Uint8Array() : body.pipeThrough(counted)
    await files.write(to, content, { user, signal, mode: octal(mode) })
    copied.files += 1
  } finally {
    await handle.close().catch(() => {})
  }
}

async function copyLink(
  { commands }: Inside,
  from: string,
  to: string,
  { user, signal }: How,
): Promise<void> {
  const args = ['ln', '-sfn', '--', await readlink(from), to]
  const { exitCode, stderr } = await commands.run(args, { signal, ...(user === undefined ? {} : { user }) })
  if (exitCode !== 0) throw new Problem('link_failed', `The link ${to} could not be made: ${stderr.trim()}`)
}

function octal(mode: number): string {
  return (mode & 0o777).toString(8).padStart(4, '0')
}
