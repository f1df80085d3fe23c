import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Access } from '@dormouse/server'
import { clientFile, findClient, openStoredAccess } from '@dormouse/server'
import { HttpKeyAdmin } from './http-key-admin.ts'
import type { KeyAdmin } from './key-admin.ts'

/**
 * Uses the API of the running server. If none runs, opens the database, which keeps a server from starting meanwhile.
 */
export async function withKeyAdmin<Value>(
  dataDir: string,
  work: (admin: KeyAdmin) => Promise<Value>,
): Promise<Value> {
  const stored = await openStoredAccess(dataDir).catch((error) => {
    if (hasErrorCode(error, 'data_dir_locked')) return undefined
    throw error
  })
  if (stored === undefined) return work(new HttpKeyAdmin(getClient(dataDir)))
  await using open = stored
  return await work(new StoredKeyAdmin(open.access))
}

function getClient(dataDir: string) {
  const client = findClient(dataDir)
  if (client !== undefined) return client
  throw new DormouseError(
    'unauthorized',
    `A server is running, but ${clientFile(dataDir)} with a key for it is missing`,
    {
      hint: 'Stop the server, then run `./dormouse key create NAME --scope admin --save`.',
    },
  )
}

class StoredKeyAdmin implements KeyAdmin {
  readonly #access: Access

  constructor(access: Access) {
    this.#access = access
  }

  async create(request: Parameters<KeyAdmin['create']>[0]) {
    const { view, key } = this.#access.create({ ...request, scopes: request.scopes ?? ['run'] })
    return { ...view, key }
  }

  async list() {
    return this.#access.list()
  }

  async update(id: string, change: Parameters<KeyAdmin['update']>[1]) {
    return this.#access.update(id, change)
  }

  async revoke(id: string) {
    return this.#access.revoke(id)
  }
}
