import assert from 'node:assert'
import { DormouseError } from '@dormouse/contracts'
import type { DatabaseSyncInstance } from '@photostructure/sqlite'

/** One numbered step of a schema. A released step is never edited; a change is a new step. */
export interface Migration {
  /** The file's name without its ending: `0001-sandboxes`. The number is the schema's version after it. */
  readonly name: string
  readonly sql: string
}

/**
 * Runs all missing steps in one transaction that also writes the new version: a crash leaves the old schema. Pre: the
 * version is not newer than the list.
 */
export function migrate(connection: DatabaseSyncInstance, migrations: readonly Migration[]): void {
  refuseUnordered(migrations)
  const wanted = latestVersion(migrations)
  if (userVersion(connection) === wanted) return
  connection.exec('BEGIN IMMEDIATE')
  try {
    // Read again under the lock: another process may have migrated meanwhile.
    const present = userVersion(connection)
    for (const migration of migrations) {
      if (versionOf(migration) > present) connection.exec(migration.sql)
    }
    connection.exec(`PRAGMA user_version = ${wanted}`)
    connection.exec('COMMIT')
  } catch (error) {
    if (connection.isTransaction) connection.exec('ROLLBACK')
    throw error
  }
}

/** Refuses a newer schema, which may use the same names with other meanings. */
export function refuseNewer(
  connection: DatabaseSyncInstance,
  migrations: readonly Migration[],
  databaseName: string,
): void {
  const found = userVersion(connection)
  const known = latestVersion(migrations)
  if (found <= known) return
  throw new DormouseError(
    'database_newer',
    `The database ${databaseName} has version ${found}; this server knows versions up to ${known}`,
    { details: { found, known } },
  )
}

function userVersion(connection: DatabaseSyncInstance): number {
  return connection.prepare('PRAGMA user_version').get().user_version
}

function latestVersion(migrations: readonly Migration[]): number {
  const last = migrations.at(-1)
  return last === undefined ? 0 : versionOf(last)
}

/** Numbers must have no gap: databases of today would skip a step that fills it later. */
function refuseUnordered(migrations: readonly Migration[]): void {
  migrations.forEach((migration, index) => {
    assert.equal(versionOf(migration), index + 1, `${migration.name} is not in its place`)
  })
}

function versionOf({ name }: Migration): number {
  const version = Number(/^(\d{4})-[a-z0-9-]+$/.exec(name)?.[1])
  assert(version > 0, `${name} is not the name of a migration`)
  return version
}
