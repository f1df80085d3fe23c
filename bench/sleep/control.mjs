import { closeSync, openSync, unlinkSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const PART_BYTES = 64 * 1024 ** 2

/** Copies this many bytes once, from memory to a new file in the page cache. What saving memory costs at least. */
export function copyToFile(directory, bytes) {
  const part = Buffer.alloc(PART_BYTES, 'dormouse')
  const path = join(directory, `control-${process.pid}`)
  const began = performance.now()
  const fd = openSync(path, 'wx')
  for (let left = bytes; left > 0; left -= PART_BYTES) writeSync(fd, part, 0, Math.min(left, PART_BYTES))
  const ms = performance.now() - began
  closeSync(fd)
  unlinkSync(path)
  return ms
}
