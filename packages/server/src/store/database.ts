import { closeSync, existsSync, fsyncSync, openSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { types } from 'node:util'
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite'
import { LateSync } from './late-sync.ts'
import { type Migration, migrate, refuseNewer } from './migrate.ts'
import { returnSpace } from './return-space.ts'
import { corruptDatabase, toCodedError } from './sqlite-error.ts'
import { prepareStatement, type SqlParams, type Statement } from './statement.ts'
import { Turnstile } from './turnstile.ts'
import { WriteThread } from './write-thread.ts'

/** Another process holds the database only for the time of one transaction. */
const BUSY_TIMEOUT_MS = 5_000
/** A WAL that one big transaction has blown up is cut back to this. */
const WAL_LIMIT_BYTES = 64 * 1024 ** 2
const REPORTED_DAMAGES = 5

export interface OpenDatabase {
  readonly path: string
  readonly migrations: readonly Migration[]
  /**
   * FULL: a commit that has returned survives a power cut. NORMAL: it survives `kill -9`, and a power cut may take the last commits
   * but never the consistency of the file.
   */
  readonly synchronous: 'FULL' | 'NORMAL'
  /** Called before anything is written: makes room on a disk that is full. */
  readonly makeRoom?: (() => void) | undefined
}

/** A WAL of a database with a thread of its own is moved into the file there; here only one that got out of hand. */
const LONG_WAL_PAGES = 4_096

/** A database that a thread writes to as well, and that gives back the space of what is deleted. */
export interface SharedDatabase extends Database, AsyncDisposable {
  readonly thread: WriteThread
  /** Of deleted rows; `PRAGMA incremental_vacuum` gives them back. */
  freePages(): number
}

export interface Database extends Disposable {
  prepare<Params extends SqlParams, Row = never>(sql: string): Statement<Params, Row>
  /**
   * All of `work` or nothing. It must be synchronous: between its statements nothing else may run on this connection.
   * Inside another transaction it is a savepoint: what it did is undone alone when it throws.
   */
  transaction<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value
  /**
   * The same, but returns before it is on disk, where it is a moment later: what a power cut in that moment takes must be of no
   * consequence. Survives `kill -9` as any other. Outermost only.
   */
  quickTransaction<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value
  /** For one statement that writes: as a transaction, where the statement is one by itself. */
  write<Value>(work: () => Value): Value
  /** Settles when all that was committed before is on disk. */
  sync(): Promise<void>
  /** Several statements without parameters. */
  exec(sql: string): void
  /** Moves everything into the one file. Again is fine. */
  close(): void
}

/**
 * Opens the file, or makes it readable for its owner only, and brings its schema up to date. After a shutdown that was not clean its
 * structure is checked first. A damaged database and one of a newer version are refused and left as they are, to the byte.
 */
export function openDatabase(options: OpenDatabase): Database {
  return open(options)
}

/** The same, for a database that is large and written to all the time. */
export function openSharedDatabase(options: OpenDatabase): SharedDatabase {
  const shared = Turnstile.share()
  const db = open(options, new Turnstile(shared, 'main'))
  const thread = new WriteThread({ path: options.path, turnstile: shared, name: basename(options.path) })
  const freePages = db.prepare<[], { freelist_count: number }>('PRAGMA freelist_count')
  return Object.assign(db, {
    thread,
    freePages: () => freePages.get()?.freelist_count ?? 0,
    [Symbol.asyncDispose]: async () => {
      await thread[Symbol.asyncDispose]()
      db.close()
    },
  })
}

function open(
  { path, migrations, synchronous, makeRoom }: OpenDatabase,
  turnstile?: Turnstile,
): SqliteDatabase {
  const name = basename(path)
  try {
    makeRoom?.()
    if (existsSync(path)) examine(path, migrations)
    else makeFile(path)
    const connection = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
    try {
      if (turnstile !== undefined) returnSpace(connection, path)
      connection.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}; PRAGMA foreign_keys = ON;
        PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES}`)
      refuseNewer(connection, migrations, name)
      migrate(connection, migrations)
      if (turnstile !== undefined) connection.exec(`PRAGMA wal_autocheckpoint = ${LONG_WAL_PAGES}`)
      const late = new LateSync(`${path}-wal`)
      return new SqliteDatabase(connection, { name, synchronous, late, turnstile, makeRoom })
    } catch (error) {
      connection.close()
      throw error
    }
  } catch (error) {
    throw toCodedError(error, name)
  }
}

class SqliteDatabase implements Database {
  readonly #connection: DatabaseSyncInstance
  readonly #name: string
  readonly #synchronous: OpenDatabase['synchronous']
  readonly #late: LateSync
  readonly #turnstile: Turnstile | undefined
  readonly #makeRoom: (() => void) | undefined
  #depth = 0

  constructor(
    connection: DatabaseSyncInstance,
    {
      name,
      synchronous,
      late,
      turnstile,
      makeRoom,
    }: { name: string; late: LateSync; turnstile: Turnstile | undefined } & Pick<
      OpenDatabase,
      'synchronous' | 'makeRoom'
    >,
  ) {
    this.#connection = connection
    this.#name = name
    this.#synchronous = synchronous
    this.#late = late
    this.#turnstile = turnstile
    this.#makeRoom = makeRoom
  }

  prepare<Params extends SqlParams, Row>(sql: string): Statement<Params, Row> {
    return prepareStatement(this.#connection, sql, {
      databaseName: this.#name,
      // Inside a transaction its beginning has made room.
      beforeRun: () => this.#depth === 0 && this.#makeRoom?.(),
    })
  }

  exec(sql: string): void {
    try {
      this.#connection.exec(sql)
    } catch (error) {
      throw toCodedError(error, this.#name)
    }
  }

  write<Value>(work: () => Value): Value {
    if (this.#turnstile === undefined || this.#depth > 0) return work()
    this.#turnstile.enter()
    try {
      return work()
    } finally {
      this.#turnstile.leave()
    }
  }

  transaction<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value {
    return this.write(() => this.#transaction(work))
  }

  #transaction<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value {
    const point = this.#depth === 0 ? undefined : `nested_${this.#depth}`
    if (point === undefined) this.#makeRoom?.()
    // IMMEDIATE: a transaction that reads first and then writes cannot be refused in its middle.
    this.exec(point === undefined ? 'BEGIN IMMEDIATE' : `SAVEPOINT ${point}`)
    this.#depth++
    try {
      const value = work()
      if (types.isPromise(value))
        throw new TypeError('A transaction cannot wait: its work must be synchronous')
      this.exec(point === undefined ? 'COMMIT' : `RELEASE ${point}`)
      return value
    } catch (error) {
      // A full disk or an I/O error may have rolled everything back already.
      if (this.#connection.isTransaction) {
        this.#connection.exec(point === undefined ? 'ROLLBACK' : `ROLLBACK TO ${point}; RELEASE ${point}`)
      }
      throw error
    } finally {
      this.#depth--
    }
  }

  quickTransaction<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value {
    if (this.#depth > 0 || this.#synchronous === 'NORMAL') return this.transaction(work)
    this.#connection.exec('PRAGMA synchronous = NORMAL')
    try {
      return this.transaction(work)
    } finally {
      this.#connection.exec('PRAGMA synchronous = FULL')
      // Once everything else that can go on has gone on. A disk that fails here fails the next commit too, and that one is heard.
      setImmediate(() => void this.sync().catch(() => {}))
    }
  }

  sync(): Promise<void> {
    return this.#late.sync()
  }

  close(): void {
    if (!this.#connection.isOpen) return
    this.#late.close()
    try {
      this.#connection.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } finally {
      this.#connection.close()
    }
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/** Looks without writing: a read-only connection neither replays the WAL into the file nor removes it. */
function examine(path: string, migrations: readonly Migration[]): void {
  // Only a database killed while it was made has a rollback journal, and only a writer can take that back.
  if (existsSync(`${path}-journal`)) return
  // A clean close removes the WAL. Asked before the connection is opened, which leaves an empty one behind.
  const wasClosed = (statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0) === 0
  const connection = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS })
  try {
    refuseNewer(connection, migrations, basename(path))
    if (!wasClosed) refuseDamaged(connection, basename(path))
  } finally {
    connection.close()
  }
}

function refuseDamaged(connection: DatabaseSyncInstance, name: string): void {
  const rows = connection.prepare(`PRAGMA quick_check(${REPORTED_DAMAGES})`).all()
  const damages = rows.map((row) => String(row.quick_check)).filter((damage) => damage !== 'ok')
  if (damages.length > 0) throw corruptDatabase(name, damages.join('; '))
}

/** SQLite would make it readable for everybody; the WAL gets the mode of the file. */
function makeFile(path: string): void {
  // Closing a file drops all locks of this process on it, so this must be one that nobody has open: exclusive.
  closeSync(openSync(path, 'ax', 0o600))
  const directory = openSync(dirname(path), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
