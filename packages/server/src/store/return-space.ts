import { statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { DatabaseSyncInstance } from '@photostructure/sqlite'

/** Values of `PRAGMA auto_vacuum`. */
const INCREMENTAL = 2
/** A rewrite of the file needs a copy in the WAL and one in a temporary file. */
const COPIES = 2.5

/**
 * Enables returning freed pages to the file system. A file of an older version is rewritten once. Without room for
 * that the file stays as it is, its free pages are reused, and the next start tries again. Pre: nothing else has the
 * database open.
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
    // The disk may have become full meanwhile; the database has not changed then.
  }
}
