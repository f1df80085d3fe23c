import type { ReadStream, WriteStream } from 'node:tty'

/** What a command has to do with: the terminal, or the pipes, that it was started in. */
export interface CommandIo {
  /** Raw where it is a terminal (`isTTY`); a pipe or a file has no `setRawMode`. */
  readonly stdin: ReadStream
  readonly stdout: WriteStream
  readonly stderr: WriteStream
  readonly env: Readonly<Record<string, string | undefined>>
  /** Aborted by Ctrl-C and its kind; the reason is the name of the signal. */
  readonly signal: AbortSignal
}
