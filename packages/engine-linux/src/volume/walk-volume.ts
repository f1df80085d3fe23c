import { type BigIntStats, constants } from 'node:fs'
import { type FileHandle, lstat, open, unlink } from 'node:fs/promises'

/**
 * Missing from Node's constants. Opens a path without opening the file there, so a pipe or device cannot block the
 * call.
 */
const O_PATH = 0o10000000
const DIRECTORY = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Returns what is at a path in a volume; undefined when there is nothing, or when a part of the path is not a
 * directory.
 */
export async function findInVolume(volumeDir: string, path: string): Promise<BigIntStats | undefined> {
  try {
    return await withParent(volumeDir, path, (place) => lstat(place, { bigint: true }))
  } catch {
    return undefined
  }
}

/**
 * Runs `work` on a regular file in a volume. It stays the same file meanwhile, even if its name changes. Returns
 * undefined when there is none.
 */
export async function withFileInVolume<Value>(
  volumeDir: string,
  path: string,
  work: (place: string, found: BigIntStats) => Promise<Value>,
): Promise<Value | undefined> {
  // Undefined also for a file that cannot be opened: callers treat it as gone.
  const file = await withParent(volumeDir, path, (place) =>
    open(place, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK),
  ).catch(() => undefined)
  if (file === undefined) return undefined
  try {
    const found = await file.stat({ bigint: true })
    return found.isFile() ? await work(`/proc/self/fd/${file.fd}`, found) : undefined
  } finally {
    await file.close()
  }
}

/** Removes a file in a volume. */
export async function removeInVolume(volumeDir: string, path: string): Promise<void> {
  await withParent(volumeDir, path, unlink)
}

/**
 * `/proc/self/fd/N/name` is one step from a directory that is held open. A sandbox that changes the volume meanwhile
 * can make a step fail, but cannot lead it elsewhere.
 */
async function withParent<Value>(
  volumeDir: string,
  path: string,
  work: (place: string) => Promise<Value>,
): Promise<Value> {
  const parts = path.split('/').filter((part) => part !== '')
  if (parts.includes('..')) throw new Error('a path in a volume does not go up')
  const name = parts.pop() ?? '.'
  let at: FileHandle = await open(volumeDir, DIRECTORY)
  try {
    for (const part of parts) {
      const next = await open(`/proc/self/fd/${at.fd}/${part}`, DIRECTORY)
      await at.close()
      at = next
    }
    return await work(`/proc/self/fd/${at.fd}/${name}`)
  } finally {
    await at.close()
  }
}
