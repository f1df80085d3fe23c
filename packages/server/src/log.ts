import { join } from 'node:path'
import {
  type DestinationStream,
  destination,
  type Logger,
  type LoggerOptions,
  pino,
  stdTimeFunctions,
} from 'pino'
import { LogLines } from './log-lines.ts'

/** What the parts of the server use of the logger. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface OpenLog {
  readonly level: string
  readonly dataDir: string
  /** stderr is a terminal: it shows lines for people, and the log goes to a file. */
  readonly isTerminal: boolean
}

export interface ServerLog {
  readonly log: Logger
  /** For those who make loggers of their own. */
  readonly options: LoggerOptions & { readonly stream: DestinationStream }
  readonly path: string | undefined
  /** The newest lines. */
  readonly lines: LogLines
}

/** One JSON object per line, on stderr or in `server.log` of the data directory. */
export function openLog({ level, dataDir, isTerminal }: OpenLog): ServerLog {
  const path = isTerminal ? join(dataDir, 'server.log') : undefined
  const stream =
    path === undefined
      ? destination({ fd: 2, sync: true })
      : destination({ dest: path, sync: false, mode: 0o600 })
  // A disk too full for the log is no reason to end: what is said meanwhile is lost.
  stream.on('error', () => {})
  const lines = new LogLines()
  const write = stream.write.bind(stream)
  stream.write = (text: string) => {
    lines.add(text)
    return write(text)
  }
  const options = { level, base: null, timestamp: stdTimeFunctions.isoTime }
  return { log: pino(options, stream), options: { ...options, stream }, path, lines }
}
