import { hasScope } from './access.ts'
import { findClient, writeClient } from './client-file.ts'
import { newKey } from './key-format.ts'
import type { StoredAccess } from './stored-access.ts'

export interface PrepareClient {
  readonly access: StoredAccess
  readonly dataDir: string
  /** The server's address. */
  readonly url: string
  /** The data directory has just joined a cluster, which has keys of its own: clients of this host need one, too. */
  readonly isNewInCluster?: boolean
}

/**
 * Called at every start. Creates an admin key if there is none, writes it for the clients of this host, and returns it
 * to be shown once. Otherwise only updates the server's address for the clients.
 */
export function prepareClient({ access, dataDir, url, isNewInCluster }: PrepareClient): string | undefined {
  const hasAdmin = access.list().some((key) => key.revokedAt === undefined && hasScope(key, 'admin'))
  if (!hasAdmin || (isNewInCluster === true && findClient(dataDir) === undefined)) {
    const { id, key } = newKey()
    // The file first: after a crash the next start creates another key. In the other order there would be a key that
    // was never shown.
    writeClient(dataDir, { url, key })
    access.adopt(id, key, { name: 'first', scopes: ['admin'] })
    return key
  }
  const client = findClient(dataDir)
  // If the operator deleted the file, it stays deleted.
  if (client !== undefined && client.url !== url) writeClient(dataDir, { url, key: client.key })
  return undefined
}
