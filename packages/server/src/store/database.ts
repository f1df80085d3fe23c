import { closeSync, existsSync, fsyncSync, openSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { types } from 'node:util'
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite'
import { type Migration, migrate, refuseNewer } from './migrate.ts'
import { returnSpace } from './return-space.ts'
import { corruptDatabase, toCodedError } from './sqlite-error.ts'
import { prepareStatement, type SqlParams, type SqlValue, type Statement } from './statement.ts'
import { ThreadLock } from './thread-lock.ts'
import { WalSync } from './wal-sync.ts'
import { WriteThread } from './write-thread.ts'

/** Another process holds the database only during one transaction. */
const BUSY_TIMEOUT_MS = 5_000
/** A WAL that one large transaction has grown is truncated to this. */
const WAL_LIMIT_BYTES = 64 * 1024 ** 2
const REPORTED_DAMAGES = 5
/** Statements that are kept. Compiling one takes longer than running most of them. */
const STATEMENTS_MAX = 500

export interface OpenDatabase {
  readonly path: string
  readonly migrations: readonly Migration[]
  /**
   * FULL: commits survive a power cut. NORMAL: commits survive `kill -9`; a power cut may undo the last ones, but the
   * file stays consistent.
   */
  readonly synchronous: 'FULL' | 'NORMAL'
  /** Called before each write. Makes room on a full disk. */
  readonly makeRoom?: (() => void) | undefined
}

/** The write thread checkpoints the WAL; this connection does so only when the WAL is this long. */
const LONG_WAL_PAGES = 4_096

/** A database that a second thread also writes to, and that returns freed space to the file system. */
export interface SharedDatabase extends Database, AsyncDisposable {
  readonly thread: WriteThread
  /** Pages of deleted rows; `PRAGMA incremental_vacuum` returns them to the file system. */
  freePages(): number
}

export interface Database extends Disposable {
  prepare<Params extends SqlParams, Row = never>(sql: string): Statement<Params, Row>
  /**
   * Commits all of `work` or nothing. `work` must be synchronous: nothing else may run on this connection between its
   * statements. Inside another transaction this is a savepoint, which is undone alone when `work` throws.
   */
  transaction<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value
  /**
   * The same, but does not wait for the disk: a power cut a moment later may undo it, `kill -9` may not. Only for
   * outermost transactions.
   */
  transactionWithoutSync<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value
  /** For a single statement that writes, which is a transaction by itself. */
  write<Value>(work: () => Value): Value
  /** Resolves when all earlier commits are on disk. */
  sync(): Promise<void>
  /** Several statements without parameters. */
  exec(sql: string): void
  /** Checkpoints and closes. Repeating it does nothing. */
  close(): void
}

/**
 * Opens the file, or creates it readable for its owner only, and migrates its schema. After an unclean shutdown the
 * structure is checked first. A damaged database, or one of a newer version, is refused and not changed.
 */
export function openDatabase(options: OpenDatabase): Database {
  return open(options)
}

/** The same, for a large database that is written to all the time. */
export function openSharedDatabase(options: OpenDatabase): SharedDatabase {
  const shared = ThreadLock.share()
  const db = open(options, new ThreadLock(shared, 'main'))
  const thread = new WriteThread({ path: options.path, threadLock: shared, name: basename(options.path) })
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
  threadLock?: ThreadLock,
): SqliteDatabase {
  const name = basename(path)
  try {
    makeRoom?.()
    if (existsSync(path)) examine(path, migrations)
    else makeFile(path)
    const connection = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
    try {
      if (threadLock !== undefined) returnSpace(connection, path)
      connection.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}; PRAGMA foreign_keys = ON;
        PRAGMA journal_size_limit = ${WAL_LIMIT_BYTES}`)
      refuseNewer(connection, migrations, name)
      migrate(connection, migrations)
      if (threadLock !== undefined) connection.exec(`PRAGMA wal_autocheckpoint = ${LONG_WAL_PAGES}`)
      const late = new WalSync(`${path}-wal`)
      return new SqliteDatabase(connection, { name, synchronous, late, threadLock, makeRoom })
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
  readonly #late: WalSync
  readonly #threadLock: ThreadLock | undefined
  readonly #makeRoom: (() => void) | undefined
  readonly #statements = new Map<string, Statement<readonly SqlValue[], unknown>>()
  #depth = 0

  constructor(
    connection: DatabaseSyncInstance,
    {
      name,
      synchronous,
      late,
      threadLock,
      makeRoom,
    }: { name: string; late: WalSync; threadLock: ThreadLock | undefined } & Pick<
      OpenDatabase,
      'synchronous' | 'makeRoom'
    >,
  ) {
    this.#connection = connection
    this.#name = name
    this.#synchronous = synchronous
    this.#late = late
    this.#threadLock = threadLock
    this.#makeRoom = makeRoom
  }

  prepare<Params extends SqlParams, Row>(sql: string): Statement<Params, Row> {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known as Statement<Params, Row>
    const statement = prepareStatement<Params, Row>(this.#connection, sql, {
      databaseName: this.#name,
      // The start of the transaction has made room.
      beforeRun: () => this.#depth === 0 && this.#makeRoom?.(),
    })
    if (this.#statements.size < STATEMENTS_MAX) this.#statements.set(sql, statement as never)
    return statement
  }

  exec(sql: string): void {
    try {
      this.#connection.exec(sql)
    } catch (error) {
      throw toCodedError(error, this.#name)
    }
  }

  write<Value>(work: () => Value): Value {
    if (this.#threadLock === undefined || this.#depth > 0) return work()
    this.#threadLock.enter()
    try {
      return work()
    } finally {
      this.#threadLock.leave()
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
      // A full disk or an I/O error may already have rolled back the transaction.
      if (this.#connection.isTransaction) {
        this.#connection.exec(point === undefined ? 'ROLLBACK' : `ROLLBACK TO ${point}; RELEASE ${point}`)
      }
      throw error
    } finally {
      this.#depth--
    }
  }

  transactionWithoutSync<Value>(work: () => Value extends PromiseLike<unknown> ? never : Value): Value {
    if (this.#depth > 0 || this.#synchronous === 'NORMAL') return this.transaction(work)
    this.#connection.exec('PRAGMA synchronous = NORMAL')
    try {
      return this.transaction(work)
    } finally {
      this.#connection.exec('PRAGMA synchronous = FULL')
      // After other work of this turn. A failing disk also fails the next commit, which reports it.
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

/** Checks without writing: a read-only connection neither replays nor removes the WAL. */
function examine(path: string, migrations: readonly Migration[]): void {
  // Only a database that was killed during its creation has a rollback journal, and only a writer can undo that.
  if (existsSync(`${path}-journal`)) return
  // A clean close removes the WAL. Checked before the connection is opened, because that creates an empty one.
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

/** SQLite would create a file that all users can read. The WAL gets the mode of the file. */
function makeFile(path: string): void {
  // Closing a file drops all locks of this process on it. `ax`: no connection has the new file open.
  closeSync(openSync(path, 'ax', 0o600))
  const directory = openSync(dirname(path), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
