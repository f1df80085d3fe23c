import { closeSync, fchmodSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/** Whole or not at all, on disk when it returns, and readable for its owner only. */
export function writePrivateFile(path: string, content: string | Uint8Array): void {
  const draft = `${path}.new`
  // Left by a crash, perhaps with another mode: opening it would keep that.
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
