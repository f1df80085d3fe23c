import { join } from 'node:path'
import { openDataDirectory } from '../data-directory/open-data-directory.ts'
import { openDatabase } from '../store/database.ts'
import { stateMigrations } from '../store/migrations/index.ts'
import { StoredAccess } from './stored-access.ts'

export interface OpenAccess extends AsyncDisposable {
  readonly access: StoredAccess
}

/**
 * Opens the keys of a data directory that no server uses. Throws `data_dir_locked` when a server does: it caches keys
 * in memory, so changes must go through it. Dispose to unlock the directory.
 */
export async function openStoredAccess(dataDir: string): Promise<OpenAccess> {
  const directory = await openDataDirectory(dataDir)
  try {
    const path = join(dataDir, 'state.db')
    const database = openDatabase({ path, migrations: stateMigrations, synchronous: 'FULL' })
    return {
      access: new StoredAccess(database),
      async [Symbol.asyncDispose]() {
        database.close()
        await directory[Symbol.asyncDispose]()
      },
    }
  } catch (error) {
    await directory[Symbol.asyncDispose]()
    throw error
  }
}
