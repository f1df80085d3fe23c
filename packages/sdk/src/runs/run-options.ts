import type { RunBody, RunEventAnswer, RunResultAnswer } from '../contract/index.ts'

/** One thing that a run says; `seq` rises by one from 0, and `exit` is the last. */
export type RunEvent = Exclude<RunEventAnswer, { type: 'failed' }>

/** A result by its mime types: text as it is, binary as base64, JSON as JSON. */
export type ResultData = RunResultAnswer['results'][number]

/** A whole run. What the code raised is in `error`: that is a result, and nothing is thrown. */
export interface RunResult extends RunResultAnswer {
  /** What a notebook would show below the cell: the value of the last expression, as text. */
  text?: string
}

export interface RunStreamOptions {
  /** `python` if not given. Both keep their state from run to run. */
  readonly language?: RunBody['language']
  /** The REPL to run in; `default` if not given. */
  readonly context?: string | undefined
  /** The run is interrupted after so long. */
  readonly timeoutMs?: number | undefined
  /** Aborting interrupts the run (the REPL lives on), and the call throws `cancelled`. */
  readonly signal?: AbortSignal | undefined
  /** One is made for every run. With the same key a run that was started before is followed, and nothing is run twice. */
  readonly idempotencyKey?: string | undefined
}

export interface RunOptions extends RunStreamOptions {
  readonly onStdout?: ((text: string) => void) | undefined
  readonly onStderr?: ((text: string) => void) | undefined
  readonly onResult?: ((data: ResultData) => void) | undefined
}
