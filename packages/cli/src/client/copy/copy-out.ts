import { constants } from 'node:fs'
import { lstat, mkdir, open, stat, symlink, unlink } from 'node:fs/promises'
import { basename, join, posix, resolve } from 'node:path'
import type { FileStat, Sandbox } from 'dormouse'
import { CliError } from '../cli-error.ts'
import { type CopyOptions, namesContents } from './copy-in.ts'
import { runCopies } from './run-copies.ts'

type Files = Sandbox['files']

interface Work {
  readonly from: string
  readonly to: string
  readonly entry: FileStat
}

/** Older servers do not know the option, whose default is true. */
export function wakeOption(wake: boolean): false | undefined {
  return wake ? undefined : false
}

/**
 * Copies a file or directory out of a sandbox. The sandbox may lie about names, types and links, and this process may
 * be root: below the target nothing is written through a link, names stay in their directory, and only the nine
 * permission bits are set.
 */
export async function copyOut(files: Files, from: string, to: string, options: CopyOptions): Promise<void> {
  const { user, signal, wake } = options
  const entry = await files.stat(from, { user, wake: wakeOption(wake), signal })
  const isDirectory = await stat(to).then(
    (found) => found.isDirectory(),
    () => false,
  )
  if (to.endsWith('/') && !isDirectory && entry.type !== 'directory')
    throw new CliError('not_found', `There is no directory ${to}`)
  const target =
    isDirectory && !namesContents(from) ? join(to, safeName(posix.basename(entry.path), from)) : resolve(to)
  if (entry.type === 'file') return copyFile(files, { from, to: target, entry }, options)
  if (entry.type !== 'directory')
    throw new CliError('not_a_file', `Cannot copy ${from}: it is a ${entry.type}`)
  const work: Work[] = []
  const links: Work[] = []
  await makeDirectories(files, { from: entry.path, to: target, entry }, options, work, links)
  await runCopies(work, (item) => copyFile(files, item, options))
  // Links come last, so that no file of this copy is written through one of them.
  for (const link of links) await copyLink(link)
}

async function makeDirectories(
  files: Files,
  at: Work,
  options: CopyOptions,
  work: Work[],
  links: Work[],
): Promise<void> {
  const { user, wake, signal } = options
  signal.throwIfAborted()
  await makeDirectory(at.to, at.entry)
  for (const entry of await files.list(at.from, { user, wake: wakeOption(wake), signal })) {
    const name = safeName(entry.name, at.from)
    const below: Work = { from: posix.join(at.from, name), to: join(at.to, name), entry }
    if (entry.type === 'directory') await makeDirectories(files, below, options, work, links)
    else if (entry.type === 'file') work.push(below)
    else if (entry.type === 'symlink') links.push(below)
  }
}

async function makeDirectory(path: string, { mode }: FileStat): Promise<void> {
  try {
    // This process must be able to write to the directory, whatever its mode was inside.
    await mkdir(path, { mode: nineBits(mode) | 0o700 })
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
    if (!(await lstat(path)).isDirectory())
      throw new CliError('conflict', `${path} is in the way: it is not a directory`, {
        hint: 'Remove it, or copy to another path.',
      })
  }
}

async function copyFile(files: Files, { from, to, entry }: Work, options: CopyOptions): Promise<void> {
  const { user, wake, signal, copied, onBytes } = options
  const flags =
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW | constants.O_NONBLOCK
  const handle = await open(to, flags, nineBits(entry.mode)).catch((error: unknown) => {
    if (isCode(error, 'ELOOP', 'ENXIO'))
      throw new CliError('conflict', `${to} is in the way: it is not a plain file`, {
        hint: 'Remove it, or copy to another path.',
      })
    throw error
  })
  try {
    if (!(await handle.stat()).isFile())
      throw new CliError('conflict', `${to} is in the way: it is not a plain file`)
    for await (const piece of files.stream(from, { user, wake: wakeOption(wake), signal })) {
      for (let at = 0; at < piece.byteLength; ) at += (await handle.write(piece, at)).bytesWritten
      onBytes(piece.byteLength)
    }
    copied.files += 1
  } finally {
    await handle.close()
  }
}

async function copyLink({ to, entry }: Work): Promise<void> {
  if (entry.target === undefined) return
  try {
    await symlink(entry.target, to)
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
    if (!(await lstat(to)).isSymbolicLink()) throw new CliError('conflict', `${to} is in the way of a link`)
    await unlink(to)
    await symlink(entry.target, to)
  }
}

function safeName(name: string, where: string): string {
  if (name === '' || name === '.' || name === '..' || /[/\0]/.test(name) || basename(name) !== name)
    throw new CliError('conflict', `${where} has a file with an impossible name: ${JSON.stringify(name)}`)
  return name
}

function nineBits(mode: string): number {
  return Number.parseInt(mode, 8) & 0o777
}

function isCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}
