import { open } from 'node:fs/promises'
import { runCommandOrFail } from './run-command.ts'

/** Post: everything that was written to the file system of `path` is on disk. */
export async function syncFileSystem(path: string): Promise<void> {
  await runCommandOrFail({ argv: ['sync', '--file-system', path] }, 'writing to disk')
}

/** Post: the entries of a directory are on disk. Syncing a file does not sync its name. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Writes a new file. It is on disk after this. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}
