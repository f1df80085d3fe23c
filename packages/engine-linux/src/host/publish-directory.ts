import { randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, readdir, rename, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { runCommandOrFail } from './run-command.ts'
import { syncDirectory, syncFileSystem } from './sync-files.ts'

const WORK_PREFIX = '.building-'

/**
 * Makes `<parent>/.building-<random>` and removes what interrupted builds left there.
 * The caller holds the lock of `parent`, so no one else is building in it.
 */
export async function makeWorkDirectory(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true, mode: 0o711 })
  for (const name of await readdir(parent)) {
    if (name.startsWith(WORK_PREFIX)) await removeTree(join(parent, name))
  }
  const work = join(parent, `${WORK_PREFIX}${randomBytes(6).toString('hex')}`)
  await mkdir(work, { mode: 0o711 })
  return work
}

/** Moves a finished directory to its final name. It is complete on disk after this, also after a power cut. */
export async function publishDirectory(finished: string, final: string): Promise<void> {
  await chmod(finished, 0o711)
  await syncFileSystem(finished)
  await rename(finished, final)
  await syncDirectory(dirname(final))
}

/** Points `<parent>/current` at one of its siblings. Readers see the old target or the new one. */
export async function switchCurrent(target: string): Promise<void> {
  const parent = dirname(target)
  const link = join(parent, `${WORK_PREFIX}${randomBytes(6).toString('hex')}`)
  await symlink(basename(target), link)
  await rename(link, join(parent, 'current'))
  await syncDirectory(parent)
}

export async function removeTree(path: string): Promise<void> {
  // Most callers tidy up what is rarely there, and starting a program takes the main thread half a millisecond.
  const isThere = await lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT',
  )
  if (!isThere) return
  // A mount inside must never be emptied along with the directory.
  await runCommandOrFail({ argv: ['rm', '-rf', '--one-file-system', '--', path] }, `removing ${path}`)
}
