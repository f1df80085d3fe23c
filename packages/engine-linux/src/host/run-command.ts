import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { DormouseError } from '@dormouse/contracts'

/** Lines kept for an error message: enough to see the cause, short enough to read. */
const TAIL_LINES = 20
/** A line beyond this is cut, so that one line cannot fill an error message. */
const LINE_MAX_CHARACTERS = 2_000
/** Output kept for the caller of a program that is asked a question. */
const OUTPUT_MAX_CHARACTERS = 1_000_000
/** How long a program may tidy up after SIGTERM before it is killed. */
const KILL_AFTER_MS = 10_000

export interface HostCommand {
  readonly argv: readonly [string, ...string[]]
  /** A file to read standard input from. Opened here, as root: the program may have no right to its path. */
  readonly stdinFile?: string
  readonly onLine?: (line: string) => void
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
}

export interface CommandResult {
  /** undefined when a signal ended it or it could not be started. */
  readonly exitCode: number | undefined
  readonly stdout: string
  /** The last lines of both streams, in order of arrival. */
  readonly tail: readonly string[]
  /** One sentence: how it ended. */
  readonly ending: string
}

/** Runs a program to its end and reports how it ended, whatever that was. Throws only when `signal` aborts. */
export async function runCommand(command: HostCommand): Promise<CommandResult> {
  command.signal?.throwIfAborted()
  const stdin = command.stdinFile === undefined ? ('ignore' as const) : openSync(command.stdinFile, 'r')
  // The kernel kills the program if this process dies without a chance to say goodbye.
  const argv = ['--pdeathsig', 'KILL', '--', ...command.argv]
  const child = spawn('setpriv', argv, { stdio: [stdin, 'pipe', 'pipe'], detached: true })
  if (typeof stdin === 'number') closeSync(stdin)
  const output = collectOutput(child, command.onLine)
  const stop = stopOnAbort(child, command)
  try {
    const ending = await waitForEnd(child)
    await output.finished
    command.signal?.throwIfAborted()
    return { ...ending, stdout: output.stdout(), tail: output.tail }
  } finally {
    stop[Symbol.dispose]()
  }
}

/** As runCommand, but anything other than exit code 0 is a `setup_failed` with the end of the output. */
export async function runCommandOrFail(command: HostCommand, what: string): Promise<CommandResult> {
  const result = await runCommand(command)
  if (result.exitCode === 0) return result
  throw new DormouseError('setup_failed', `${what}: ${command.argv[0]} ${result.ending}`, {
    details: { command: command.argv.join(' '), output: result.tail },
  })
}

/**
 * Puts a program that starts many others into its own pid and mount namespace: when it ends or is killed, nothing
 * of it is left, neither processes nor mounts.
 */
export function inOwnNamespaces(argv: readonly string[]): [string, ...string[]] {
  return ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--', ...argv]
}

function collectOutput(child: ChildProcess, onLine: ((line: string) => void) | undefined) {
  const tail: string[] = []
  let stdout = ''
  const read = async (stream: Readable, isStdout: boolean) => {
    for await (const raw of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
      const line = raw.slice(0, LINE_MAX_CHARACTERS)
      if (isStdout && stdout.length < OUTPUT_MAX_CHARACTERS) stdout += `${line}\n`
      tail.push(line)
      if (tail.length > TAIL_LINES) tail.shift()
      onLine?.(line)
    }
  }
  const streams = [
    [child.stdout, true],
    [child.stderr, false],
  ] as const
  const finished = Promise.all(streams.map(([stream, isStdout]) => stream && read(stream, isStdout)))
  return { tail, finished, stdout: () => stdout }
}

function waitForEnd(child: ChildProcess): Promise<Pick<CommandResult, 'exitCode' | 'ending'>> {
  return new Promise((resolve) => {
    child.once('error', (error) =>
      resolve({ exitCode: undefined, ending: `could not be started: ${error.message}` }),
    )
    child.once('exit', (code, signal) => {
      if (code === null) resolve({ exitCode: undefined, ending: `was ended by ${signal}` })
      // setpriv and env report a program that does not exist this way.
      else if (code === 127) resolve({ exitCode: code, ending: 'is not installed' })
      else resolve({ exitCode: code, ending: `ended with exit code ${code}` })
    })
  })
}

function stopOnAbort(child: ChildProcess, { signal, timeoutMs }: HostCommand): Disposable {
  const timers: NodeJS.Timeout[] = []
  const stop = () => {
    signalGroup(child, 'SIGTERM')
    timers.push(setTimeout(() => signalGroup(child, 'SIGKILL'), KILL_AFTER_MS))
  }
  signal?.addEventListener('abort', stop, { once: true })
  if (timeoutMs !== undefined) timers.push(setTimeout(stop, timeoutMs))
  return {
    [Symbol.dispose]() {
      signal?.removeEventListener('abort', stop)
      for (const timer of timers) clearTimeout(timer)
    },
  }
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The group is already gone.
  }
}
