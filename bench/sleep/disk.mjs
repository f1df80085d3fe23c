import { execFileSync } from 'node:child_process'
import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

const STAT_BLOCK_BYTES = 512

/**
 * Bytes of files that the page cache holds, by cachestat(2). Not `fincore`: it looks at every page of a file, and a
 * sparse memory file can have hundreds of millions of them.
 */
const COUNT_CACHED = `
import ctypes, os, sys
syscall, pages = ctypes.CDLL(None, use_errno=True).syscall, 0
for path in sys.argv[1:]:
    file, counts = os.open(path, os.O_RDONLY), (ctypes.c_uint64 * 5)()
    if syscall(451, file, (ctypes.c_uint64 * 2)(0, 0), counts, 0) != 0: raise OSError(ctypes.get_errno(), path)
    pages += counts[0]
    os.close(file)
print(pages * os.sysconf('SC_PAGE_SIZE'))`

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
  return Number(execFileSync('python3', ['-c', COUNT_CACHED, ...files]))
}
