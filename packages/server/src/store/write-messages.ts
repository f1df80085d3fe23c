import type { SqlValue } from './statement.ts'

/** One statement, run once for each row of parameters. Without rows it is executed as it is. */
export interface WriteStep {
  readonly sql: string
  readonly rows?: readonly (readonly SqlValue[])[]
}

/** To the thread. */
export type WriteRequest =
  | { readonly type: 'write'; readonly request: number; readonly steps: readonly WriteStep[] }
  /** Checkpoints the WAL and truncates the database file. */
  | { readonly type: 'checkpoint'; readonly request: number }
  | { readonly type: 'close'; readonly request: number }

/** From the thread. `changes`: rows that the last step changed. */
export type WriteAnswer =
  | { readonly type: 'done'; readonly request: number; readonly changes: number }
  | { readonly type: 'failed'; readonly request: number; readonly error: WriteFailure }

/** The fields of an SQLite error that survive the message between threads. */
export interface WriteFailure {
  readonly message: string
  readonly errcode: number | undefined
}

export interface WriteThreadData {
  readonly path: string
  readonly threadLock: SharedArrayBuffer
}
