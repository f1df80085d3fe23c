import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

/**
 * Debian's libjemalloc2, which the set-up installs: an allocator that hands out discarded pages as zeros without
 * clearing them.
 */
export function findJemalloc(): string {
  const cache = execFileSync('/sbin/ldconfig', ['-p'], { encoding: 'utf8' })
  const path = /libjemalloc\.so\.2 .*=> (\S+)/.exec(cache)?.[1]
  if (path === undefined || !existsSync(path))
    throw new Error('libjemalloc.so.2 is not installed: apt-get install libjemalloc2')
  return path
}
