import { closeSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/** Writes a file that only its owner can read. The file is complete and synced when this returns, or unchanged. */
export function writePrivateFile(path: string, content: string | Uint8Array): void {
  const draft = `${path}.new`
  // A file that a crash left may have another mode, which opening it would keep.
  rmSync(draft, { force: true })
  const file = openSync(draft, 'wx', 0o600)
  try {
    fchmodSync(file, 0o600)
    writeSync(file, typeof content === 'string' ? Buffer.from(content) : content)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(draft, path)
  const directory = openSync(dirname(path), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
