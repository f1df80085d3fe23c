import { open } from 'node:fs/promises'
import { runCommandOrFail } from './run-command.ts'

/** Everything that was written to the file system of `path` is on disk after this. */
export async function syncFileSystem(path: string): Promise<void> {
  await runCommandOrFail({ argv: ['sync', '--file-system', path] }, 'writing to disk')
}

/** A directory entry, as opposed to what it names, is durable only after this. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Writes a new file; it is on disk after this. */
export async function writeDurably(path: string, text: string): Promise<void> {
  const handle = await open(path, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}
