// The thread of write-thread.ts: a second connection to a database, for work that would block the event loop.
import assert from 'node:assert'
import { parentPort, workerData } from 'node:worker_threads'
import { DatabaseSync } from '@photostructure/sqlite'
import { ThreadLock } from './thread-lock.ts'
import type { WriteAnswer, WriteFailure, WriteRequest, WriteStep, WriteThreadData } from './write-messages.ts'

const BUSY_TIMEOUT_MS = 5_000
/** A WAL that is longer than this is checkpointed after the next commit. */
const WAL_PAGES = 1_000
/** Estimated pages per commit: of inserts, and of deletions, which may touch many. */
const COMMIT_PAGES = 16
const EXECUTED_PAGES = 256
const PAGE_BYTES = 4_096

const { path, threadLock } = workerData as WriteThreadData
const turn = new ThreadLock(threadLock, 'other')
const connection = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS })
// A checkpoint waits for the disk: it must not be part of a commit, which the main thread may be waiting for.
connection.exec(
  'PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -8192',
)
const statements = new Map<string, ReturnType<typeof connection.prepare>>()
let walPages = 0

function statementOf(sql: string) {
  let statement = statements.get(sql)
  if (statement === undefined) {
    statement = connection.prepare(sql)
    statements.set(sql, statement)
  }
  return statement
}

function write(steps: readonly WriteStep[]): number {
  let changes = 0
  let bytes = 0
  turn.enter()
  try {
    connection.exec('BEGIN IMMEDIATE')
    for (const { sql, rows } of steps) {
      changes = 0
      if (rows === undefined) {
        connection.exec(sql)
        bytes += EXECUTED_PAGES * PAGE_BYTES
      }
      for (const row of rows ?? []) {
        changes += Number(statementOf(sql).run(...row).changes)
        for (const value of row) if (typeof value === 'string') bytes += value.length
      }
    }
    connection.exec('COMMIT')
  } catch (error) {
    if (connection.isTransaction) connection.exec('ROLLBACK')
    throw error
  } finally {
    turn.leave()
  }
  walPages += COMMIT_PAGES + bytes / PAGE_BYTES
  return changes
}

/** Waits for no reader and blocks no writer. Pages that a reader still needs stay in the WAL. */
function checkpoint(): void {
  walPages = 0
  connection.exec('PRAGMA wal_checkpoint(PASSIVE)')
}

function perform(message: WriteRequest): number {
  if (message.type === 'write') return write(message.steps)
  if (message.type === 'checkpoint') checkpoint()
  else connection.close()
  return 0
}

function failureOf(error: unknown): WriteFailure {
  const { message, errcode } = error as Error & { errcode?: number }
  return { message: String(message), errcode }
}

assert(parentPort !== null)
const port = parentPort
port.on('message', (message: WriteRequest) => {
  const { request } = message
  try {
    port.postMessage({ type: 'done', request, changes: perform(message) } satisfies WriteAnswer)
  } catch (error) {
    port.postMessage({ type: 'failed', request, error: failureOf(error) } satisfies WriteAnswer)
  }
  try {
    // After the reply, so that no caller waits for it.
    if (message.type === 'write' && walPages > WAL_PAGES) checkpoint()
  } catch {
    // A failing disk also fails the next commit, which reports it.
  }
})
