import { execFileSync } from 'node:child_process'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

const STAT_BLOCK_BYTES = 512

/** Bytes in the blocks of all files below these directories. Counts a file with several names once. */
export async function blockBytes(...directories) {
  const seen = new Map()
  for (const directory of directories) {
    for (const name of await readdir(directory, { recursive: true })) {
      const found = await lstat(join(directory, name)).catch(() => undefined)
      if (found !== undefined) seen.set(found.ino, found.blocks * STAT_BLOCK_BYTES)
    }
  }
  return [...seen.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/**
 * Drops the files below a directory from the page cache (POSIX_FADV_DONTNEED, by dd). Returns how many of their bytes
 * are still in it. Pre: they are on disk, and no process maps them.
 */
export async function dropFromCache(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
  for (const file of files) execFileSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0', 'status=none'])
  const resident = execFileSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', ...files])
  return resident
    .toString()
    .split('\n')
    .reduce((sum, line) => sum + Number(line), 0)
}
