import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSyncInstance } from '@photostructure/sqlite'

/** As `PRAGMA auto_vacuum` says it. */
const INCREMENTAL = 2
/** What a rewrite of the whole file needs: a copy in the WAL, and one in a temporary file. */
const COPIES = 2.5

/**
 * Makes a database one whose freed pages can be given back to the file system. A file from before that is rewritten once, which takes
 * as long as what is in it is long. Without room for that it stays as it is: its freed pages are used again, and the next start tries again.
 * Pre: nothing else has the database open.
 */
export function returnSpace(connection: DatabaseSyncInstance, path: string): void {
  const ask = (pragma: string): number =>
    Object.values(connection.prepare(`PRAGMA ${pragma}`).get() as Record<string, number>)[0] ?? 0
  if (ask('auto_vacuum') === INCREMENTAL) return
  connection.exec(`PRAGMA auto_vacuum = ${INCREMENTAL}`)
  const livePages = ask('page_count') - ask('freelist_count')
  if (livePages === 0) return
  const { bavail, bsize } = statfsSync(dirname(path))
  if (bavail * bsize < livePages * ask('page_size') * COPIES) return
  try {
    connection.exec('VACUUM')
  } catch {
    // The disk may have become full meanwhile; nothing of the database has changed then.
  }
}
