import { closeSync, openSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import { type Program, type ProgramEnding, startProgram } from './start-program.ts'

/** Lines kept for an error message: enough to see the cause, short enough to read. */
const TAIL_LINES = 20
/** A line beyond this is cut, so that one line cannot fill an error message. */
const LINE_MAX_CHARACTERS = 2_000
/** Output kept for callers that read it. */
const OUTPUT_MAX_CHARACTERS = 1_000_000
/** How long a program may clean up after SIGTERM before it is killed. */
const KILL_AFTER_MS = 10_000

export interface HostCommand {
  readonly argv: readonly [string, ...string[]]
  readonly cwd?: string
  /** Standard input is read from this file. Opened here, as root: the program may have no right to its path. */
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

/** Runs a program to its end and reports how it ended. Throws only when `signal` aborts. */
export async function runCommand(command: HostCommand): Promise<CommandResult> {
  command.signal?.throwIfAborted()
  const stdin = command.stdinFile === undefined ? ('ignore' as const) : openSync(command.stdinFile, 'r')
  // The kernel kills the program if this process dies without a chance to clean up.
  const argv = ['setpriv', '--pdeathsig', 'KILL', '--', ...command.argv] as const
  let program: Program
  try {
    program = startProgram({
      argv,
      stdio: [stdin, 'pipe', 'pipe'],
      isDetached: true,
      ...(command.cwd !== undefined && { cwd: command.cwd }),
    })
  } catch (error) {
    const ending = `could not be started: ${(error as Error).message}`
    return { exitCode: undefined, ending, stdout: '', tail: [] }
  } finally {
    if (typeof stdin === 'number') closeSync(stdin)
  }
  const output = collectOutput(program, command.onLine)
  const stop = stopOnAbort(program, command)
  try {
    const ending = describeEnding(await program.exited)
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
 * Puts a program that starts many others into its own pid and mount namespace: when it ends or is killed, no process
 * and no mount of it is left.
 */
export function inOwnNamespaces(argv: readonly string[]): [string, ...string[]] {
  return ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--', ...argv]
}

function collectOutput({ streams: [, out, err] }: Program, onLine: ((line: string) => void) | undefined) {
  const tail: string[] = []
  let stdout = ''
  const read = async (stream: Readable, isStdout: boolean) => {
    for await (const raw of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
      const line = raw.slice(0, LINE_MAX_CHARACTERS)
      if (isStdout && stdout.length < OUTPUT_MAX_CHARACTERS)
        stdout += `${raw.slice(0, OUTPUT_MAX_CHARACTERS)}\n`
      tail.push(line)
      if (tail.length > TAIL_LINES) tail.shift()
      onLine?.(line)
    }
  }
  const streams = [
    [out, true],
    [err, false],
  ] as const
  const finished = Promise.all(streams.map(([stream, isStdout]) => stream && read(stream, isStdout)))
  return { tail, finished, stdout: () => stdout }
}

function describeEnding({ exitCode, signal }: ProgramEnding): Pick<CommandResult, 'exitCode' | 'ending'> {
  if (exitCode === null) return { exitCode: undefined, ending: `was ended by ${signal}` }
  // setpriv and env report a program that does not exist this way.
  if (exitCode === 127) return { exitCode, ending: 'is not installed' }
  return { exitCode, ending: `ended with exit code ${exitCode}` }
}

function stopOnAbort(program: Program, { signal, timeoutMs }: HostCommand): Disposable {
  const timers: NodeJS.Timeout[] = []
  const stop = () => {
    signalGroup(program, 'SIGTERM')
    timers.push(setTimeout(() => signalGroup(program, 'SIGKILL'), KILL_AFTER_MS))
  }
  const listener = onAbort(signal, stop)
  if (timeoutMs !== undefined) timers.push(setTimeout(stop, timeoutMs))
  return {
    [Symbol.dispose]() {
      listener[Symbol.dispose]()
      for (const timer of timers) clearTimeout(timer)
    },
  }
}

/** Signals the group even when the program itself has exited: its children may not have. */
function signalGroup({ pid }: Program, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // The group is already gone.
  }
}
