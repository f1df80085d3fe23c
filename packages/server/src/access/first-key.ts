import { hasScope } from './access.ts'
import { findClient, writeClient } from './client-file.ts'
import { newKey } from './key-format.ts'
import type { StoredAccess } from './stored-access.ts'

export interface PrepareClient {
  readonly access: StoredAccess
  readonly dataDir: string
  /** Where the server answers now. */
  readonly url: string
}

/**
 * Run at every start. Without a key that is admin it makes one, leaves it for the clients of this machine and answers it, to be shown
 * this once. Otherwise the clients only learn where the server is now.
 */
export function prepareClient({ access, dataDir, url }: PrepareClient): string | undefined {
  const hasAdmin = access.list().some((key) => key.revokedAt === undefined && hasScope(key, 'admin'))
  if (!hasAdmin) {
    const { id, key } = newKey()
    // The file first: a crash before the row means another key at the next start, the other way round a key nobody has seen.
    writeClient(dataDir, { url, key })
    access.adopt(id, key, { name: 'first', scopes: ['admin'] })
    return key
  }
  const client = findClient(dataDir)
  // Somebody who took the file away does not get it back.
  if (client !== undefined && client.url !== url) writeClient(dataDir, { url, key: client.key })
  return undefined
}
