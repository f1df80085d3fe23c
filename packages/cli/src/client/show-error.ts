import { accessSync, constants } from 'node:fs'
import { constants as os } from 'node:os'
import { join } from 'node:path'
import { DormouseError } from 'dormouse'
import { CliError } from './cli-error.ts'
import { cliHint } from './cli-hints.ts'
import type { CommandIo } from './command-io.ts'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

interface ShowOptions {
  readonly isJson: boolean
  readonly dataDir?: string | undefined
  /** The full name of the command, such as `snapshot ls`. */
  readonly command?: string | undefined
}

/** Prints what went wrong and what to do next. Returns the exit status. */
export function showError(error: unknown, io: CommandIo, { isJson, dataDir, command }: ShowOptions): number {
  // The reader of the output is gone.
  if (io.signal.reason === 'SIGPIPE') return 0
  if (io.signal.aborted && (error === io.signal.reason || isAbort(error))) return signalStatus(io.signal)
  const { code, message, hint, requestId } = describe(error, { env: io.env, dataDir, command })
  if (isJson) io.stderr.write(`${JSON.stringify({ error: { code, message, hint, requestId } })}\n`)
  else {
    io.stderr.write(`dormouse: ${message}\n`)
    if (hint !== '') io.stderr.write(`  ${hint}\n`)
    if (requestId !== undefined) io.stderr.write(`  (${code}, request ${requestId})\n`)
  }
  return error instanceof CliError ? error.exitCode : 1
}

/** 130 after Ctrl-C, as in a shell. */
export function signalStatus(signal: AbortSignal): number {
  return 128 + (os.signals[signal.reason as NodeJS.Signals] ?? os.signals.SIGINT)
}

function isAbort(error: unknown): boolean {
  if (error instanceof DormouseError) return error.code === 'cancelled'
  return error instanceof Error && error.name === 'AbortError'
}

interface Situation {
  readonly env: CommandIo['env']
  readonly dataDir: string | undefined
  readonly command: string | undefined
}

interface Described {
  readonly code: string
  readonly message: string
  readonly hint: string
  readonly requestId?: string | undefined
}

function describe(error: unknown, situation: Situation): Described {
  if (error instanceof DormouseError) {
    const { code, requestId } = error
    // The part of the request that holds the field means nothing on the command line.
    const message =
      code === 'invalid_argument' ? error.message.replace(/^(body|query|path): /, '') : error.message
    return { code, message, requestId, hint: nextStep(error, situation) }
  }
  if (error instanceof CliError) return { code: error.code, message: error.message, hint: error.hint }
  if (isSystemError(error)) return { code: error.code, message: systemMessage(error), hint: '' }
  return { code: 'internal', message: error instanceof Error ? error.message : String(error), hint: '' }
}

/** `x: no such file or directory`, from `ENOENT: no such file or directory, open 'x'`. */
function systemMessage({ message }: Error): string {
  const [, what, path] = /^E[A-Z0-9]+: (.*?), \w+ '(.*?)'/s.exec(message) ?? []
  return what === undefined ? message : `${path}: ${what}`
}

/** The server's hint, or a better one where the command line has one. */
function nextStep(error: DormouseError, { env, dataDir, command }: Situation): string {
  switch (error.code) {
    case 'invalid_argument':
      return error.status === undefined || command === undefined
        ? error.hint
        : `Run \`dormouse ${command} --help\` for its usage.`
    case 'unauthorized':
      return error.status === undefined
        ? keyHint(dataDir ?? (env['DORMOUSE_DATA'] || DEFAULT_DATA_DIR))
        : cliHint(error)
    case 'server_unreachable':
      if (/certificate/i.test(error.message)) return error.hint
      return 'Start the server with `sudo ./dormouse up`, or name another one with DORMOUSE_URL or --url.'
    default:
      return cliHint(error)
  }
}

/** Says where to get a key for the local server. */
function keyHint(dataDir: string): string {
  const file = join(dataDir, 'client.json')
  try {
    accessSync(file, constants.R_OK)
  } catch (error) {
    if (isSystemError(error) && error.code === 'EACCES')
      return `Only root can read the key in ${file}. Use sudo, or set DORMOUSE_API_KEY to a key from \`sudo ./dormouse key create NAME\`.`
    return 'Set DORMOUSE_API_KEY. On the machine of the server, `sudo ./dormouse up` creates the first key.'
  }
  return 'Set DORMOUSE_API_KEY to a key of that server.'
}

function isSystemError(error: unknown): error is Error & { code: string } {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
}
