import type { SqlValue } from './statement.ts'

/** One statement, run once for each row of parameters. Without rows it is executed as it is. */
export interface WriteStep {
  readonly sql: string
  readonly rows?: readonly (readonly SqlValue[])[]
}

/** To the thread. */
export type WriteRequest =
  | { readonly type: 'write'; readonly request: number; readonly steps: readonly WriteStep[] }
  /** Moves what is in the WAL into the database file, which is then as short as it can be. */
  | { readonly type: 'checkpoint'; readonly request: number }
  | { readonly type: 'close'; readonly request: number }

/** From the thread. `changes`: of the last step. */
export type WriteAnswer =
  | { readonly type: 'done'; readonly request: number; readonly changes: number }
  | { readonly type: 'failed'; readonly request: number; readonly error: WriteFailure }

/** An error of SQLite: what is left of one that crosses threads. */
export interface WriteFailure {
  readonly message: string
  readonly errcode: number | undefined
}

export interface WriteThreadData {
  readonly path: string
  readonly turnstile: SharedArrayBuffer
}
