import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { z } from 'zod'
import { writePrivateFile } from '../data-directory/write-private-file.ts'

const clientSchema = z.object({ url: z.url(), key: z.string() })

/** Tells clients on this host the server's address and a key. Only the owner of the data directory can read it. */
export type Client = z.infer<typeof clientSchema>

export function clientFile(dataDir: string): string {
  return join(dataDir, 'client.json')
}

export function findClient(dataDir: string): Client | undefined {
  const path = clientFile(dataDir)
  try {
    return clientSchema.parse(JSON.parse(readFileSync(path, 'utf8')))
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined
    throw new DormouseError('setup_failed', `${path} cannot be used: it is not {"url": …, "key": …}`, {
      hint: 'Delete it, stop the server, then run `dormouse key create NAME --scope admin --save`.',
      cause,
    })
  }
}

/** Writes the file atomically. Post: it is on disk. */
export function writeClient(dataDir: string, { url, key }: Client): void {
  writePrivateFile(clientFile(dataDir), `${JSON.stringify({ url, key }, null, 2)}\n`)
}
