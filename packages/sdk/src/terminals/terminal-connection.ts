import { DormouseError } from '../error.ts'

/** How a terminal ended. */
export interface PtyExit {
  readonly exitCode: number
  readonly durationMs: number
  readonly timedOut?: boolean | undefined
  /** The signal that ended it, such as `SIGKILL`. */
  readonly signal?: string | undefined
}

/** A connection to a terminal. It reconnects until the process ends or it is closed. */
export interface TerminalConnection {
  /**
   * Resolves when the data is sent. Does not send it again after a lost connection: typing twice may be worse than not
   * at all. Rejects with `conflict` if the process has ended.
   */
  type(data: Uint8Array): Promise<void>
  /** Rejects if the terminal cannot be reached any more. */
  readonly ended: Promise<PtyExit>
  /** The process continues. */
  close(): void
}

export interface TerminalOptions {
  /** The path of the process. */
  readonly path: string
  readonly onData: (text: string) => void
  /** Output after this `seq`; -1 for all that the server has. */
  readonly after: number
}

export function endedError(cause?: unknown): DormouseError {
  return new DormouseError('conflict', 'The terminal has ended', {
    hint: '`pty.wait()` says how; `pty.create()` opens another one.',
    cause,
  })
}
