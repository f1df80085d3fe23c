import { accessSync, constants } from 'node:fs'
import { constants as os } from 'node:os'
import { join } from 'node:path'
import { DormouseError } from 'dormouse'
import type { CommandIo } from './command-io.ts'
import { Problem } from './problem.ts'

const DEFAULT_DATA_DIR = '/var/lib/dormouse'

interface Shown {
  readonly isJson: boolean
  readonly dataDir?: string | undefined
  /** What was typed, such as `snapshot ls`. */
  readonly command?: string | undefined
}

/** Says what went wrong and what to type next, and answers the exit status. */
export function showError(error: unknown, io: CommandIo, { isJson, dataDir, command }: Shown): number {
  // Nobody reads: there is nobody to tell.
  if (io.signal.reason === 'SIGPIPE') return 0
  if (io.signal.aborted && (error === io.signal.reason || isEndOfWaiting(error)))
    return signalStatus(io.signal)
  const { code, message, hint, requestId } = describe(error, { env: io.env, dataDir, command })
  if (isJson) io.stderr.write(`${JSON.stringify({ error: { code, message, hint, requestId } })}\n`)
  else {
    io.stderr.write(`dormouse: ${message}\n`)
    if (hint !== '') io.stderr.write(`  ${hint}\n`)
    if (requestId !== undefined) io.stderr.write(`  (${code}, request ${requestId})\n`)
  }
  return error instanceof Problem ? error.exitCode : 1
}

/** 130 after Ctrl-C, as a shell would say. */
export function signalStatus(signal: AbortSignal): number {
  return 128 + (os.signals[signal.reason as NodeJS.Signals] ?? os.signals.SIGINT)
}

function isEndOfWaiting(error: unknown): boolean {
  if (error instanceof DormouseError) return error.code === 'cancelled'
  return error instanceof Error && error.name === 'AbortError'
}

interface Asked {
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

function describe(error: unknown, asked: Asked): Described {
  if (error instanceof DormouseError) {
    const { code, requestId } = error
    // Which part of the request a field is in is nothing that was typed.
    const message =
      code === 'invalid_argument' ? error.message.replace(/^(body|query|path): /, '') : error.message
    return { code, message, requestId, hint: inCommands(nextStep(error, asked)) }
  }
  if (error instanceof Problem) return { code: error.code, message: error.message, hint: error.hint }
  if (isSystemError(error)) return { code: error.code, message: systemMessage(error), hint: '' }
  return { code: 'internal', message: error instanceof Error ? error.message : String(error), hint: '' }
}

/** `ENOENT: no such file or directory, open 'x'` is for programmers. */
function systemMessage({ message }: Error): string {
  const [, what, path] = /^E[A-Z0-9]+: (.*?), \w+ '(.*?)'/s.exec(message) ?? []
  return what === undefined ? message : `${path}: ${what}`
}

/** Routes that the server's hints name, and what is typed for them. */
const ROUTES: readonly (readonly [string, string])[] = [
  ['POST /v1/volumes', '`dormouse volume create NAME`'],
  ['POST /v1/secrets', '`dormouse secret create NAME`'],
  ['`POST …/ports/{port}/wait`', '`dormouse port wait SANDBOX PORT`'],
]

function inCommands(hint: string): string {
  return ROUTES.reduce((text, [route, command]) => text.replace(route, command), hint)
}

/** What to type, where this side knows it better than the server. */
function nextStep(error: DormouseError, { env, dataDir, command }: Asked): string {
  switch (error.code) {
    case 'invalid_argument':
      return error.status === undefined || command === undefined
        ? error.hint
        : `\`dormouse ${command} --help\` says what it takes.`
    case 'unauthorized':
      return error.status === undefined
        ? whereKeysAre(dataDir ?? (env['DORMOUSE_DATA'] || DEFAULT_DATA_DIR))
        : error.hint
    case 'server_unreachable':
      if (/certificate/i.test(error.message)) return error.hint
      return 'Is the server up? `sudo ./dormouse up` starts it; DORMOUSE_URL or --url names another one.'
    case 'template_not_found':
      return '`dormouse template ls` lists them.'
    case 'name_taken':
      return 'Choose another name, or take the one that exists with `dormouse create --get-or-create --name NAME`.'
    default:
      return error.hint
  }
}

/** The key of the local server is for who may read its file. */
function whereKeysAre(dataDir: string): string {
  const file = join(dataDir, 'client.json')
  try {
    accessSync(file, constants.R_OK)
  } catch (error) {
    if (isSystemError(error) && error.code === 'EACCES')
      return `${file} has one, and only root may read it: run this with sudo, or set DORMOUSE_API_KEY to a key from \`sudo ./dormouse key create NAME\`.`
    return 'Set DORMOUSE_API_KEY. On the machine of the server, `sudo ./dormouse up` makes the first key.'
  }
  return 'Set DORMOUSE_API_KEY to a key of that server.'
}

function isSystemError(error: unknown): error is Error & { code: string } {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
}
