import type { RunBody, RunEventAnswer, RunResultAnswer } from '../contract/index.ts'

/** An event of a run; `seq` starts at 0 and increases by one, and `exit` is the last event. */
export type RunEvent = Exclude<RunEventAnswer, { type: 'failed' }>

/** A result by its mime types: text as it is, binary as base64, JSON as JSON. */
export type ResultData = RunResultAnswer['results'][number]

/** The outcome of a run. An exception in the code is in `error`; the call throws nothing. */
export interface RunResult extends RunResultAnswer {
  /** The value of the last expression as text, as a notebook shows it. */
  text?: string
}

export interface RunStreamOptions {
  /** Default: `python`. Both languages keep their state from run to run. */
  readonly language?: RunBody['language']
  /** The REPL to run in. Default: `default`. */
  readonly context?: string | undefined
  /** Interrupts the run after this time. */
  readonly timeoutMs?: number | undefined
  /** Aborting interrupts the run (the REPL continues), and the call throws `cancelled`. */
  readonly signal?: AbortSignal | undefined
  /** Default: a new key. With the key of an earlier run, the call returns that run and runs nothing. */
  readonly idempotencyKey?: string | undefined
}

export interface RunOptions extends RunStreamOptions {
  readonly onStdout?: ((text: string) => void) | undefined
  readonly onStderr?: ((text: string) => void) | undefined
  readonly onResult?: ((data: ResultData) => void) | undefined
}
