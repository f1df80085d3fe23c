import { DormouseError } from '../error.ts'

/** How a terminal ended. */
export interface PtyExit {
  readonly exitCode: number
  readonly durationMs: number
  readonly timedOut?: boolean | undefined
  /** What ended it, such as `SIGKILL`. */
  readonly signal?: string | undefined
}

/** A connection to a terminal: made again when it is lost, until the process ends or it is closed. */
export interface Line {
  /**
   * Settles when it is on its way. What is lost with a connection is not typed again: once too often may be worse than never. Rejects
   * with `conflict` when the process has ended.
   */
  type(data: Uint8Array): Promise<void>
  /** Rejects when the terminal cannot be reached any more. */
  readonly ended: Promise<PtyExit>
  /** The process goes on. */
  close(): void
}

export interface LineOptions {
  /** Of the process. */
  readonly path: string
  readonly onData: (text: string) => void
  /** Show again what came after this `seq`; all that is held when -1. */
  readonly after: number
}

export function hasEnded(cause?: unknown): DormouseError {
  return new DormouseError('conflict', 'The terminal has ended', {
    hint: '`pty.wait()` says how; `pty.create()` opens another one.',
    cause,
  })
}
