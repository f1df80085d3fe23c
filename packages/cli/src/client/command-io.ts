import type { ReadStream, WriteStream } from 'node:tty'

/** The terminal or pipes that a command runs in. */
export interface CommandIo {
  /** A pipe or a file (not `isTTY`) has no `setRawMode`. */
  readonly stdin: ReadStream
  readonly stdout: WriteStream
  readonly stderr: WriteStream
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted by Ctrl-C and other signals; the reason is the name of the signal. */
  readonly signal: AbortSignal
}
