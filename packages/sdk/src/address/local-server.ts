import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '../error.ts'

/** Reads the file that a server on this machine writes to its data directory. Undefined if it cannot be read. */
export async function readLocalServer(dataDir: string): Promise<{ url: string; key: string } | undefined> {
  const path = join(dataDir, 'client.json')
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch {
    return undefined
  }
  try {
    const { url, key } = JSON.parse(text) as { url?: unknown; key?: unknown }
    if (typeof url === 'string' && typeof key === 'string') return { url, key }
  } catch {
    // Reported below.
  }
  throw new DormouseError('setup_failed', `${path} cannot be used: it is not {"url": …, "key": …}`, {
    hint: 'Delete it, stop the server, then run `dormouse key create NAME --scope admin --save`.',
  })
}
