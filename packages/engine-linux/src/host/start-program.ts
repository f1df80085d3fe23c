import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import type { Duplex } from 'node:stream'
import { startAddon } from '../native-programs.ts'

export interface ProgramStart {
  readonly argv: readonly [string, ...string[]]
  /** The environment of this process by default. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** In a session of its own, out of reach of a Ctrl-C at this process's terminal. */
  readonly isDetached?: boolean
  /** The program's descriptors from 0 on: nothing, a stream to this process, or a descriptor of this process. */
  readonly stdio: readonly ('ignore' | 'pipe' | number)[]
}

export interface ProgramEnding {
  /** null when a signal ended it. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
}

/** A program that this process has started. Its streams have to be read; otherwise their end is not noticed. */
export interface Program {
  readonly pid: number
  readonly isRunning: boolean
  /** By descriptor; undefined where it is not a stream. */
  readonly streams: readonly (Duplex | undefined)[]
  readonly exited: Promise<ProgramEnding>
  /** Settles when it has exited and its streams are closed. */
  readonly closed: Promise<ProgramEnding>
  /** Does nothing when it has exited. */
  kill(signal?: NodeJS.Signals): void
}

/** See native/src/start-addon.c. */
interface StartAddon {
  watchEnds(onEnd: (pid: number, exitCode: number, signal: number) => void): void
  start(
    argv: readonly string[],
    env: readonly string[] | null,
    cwd: string | null,
    isDetached: boolean,
    stdio: readonly number[],
  ): [pid: number, ...ours: number[]]
}

const NOTHING = -1
const PIPE = -2

/**
 * Starts a program without copying this process: that copy takes Node milliseconds and grows with its heap. Throws when
 * the program cannot be started. Without the addon, Node starts it.
 */
export function startProgram(start: ProgramStart): Program {
  const starter = findStarter()
  return starter === undefined ? startByNode(start) : starter.start(start)
}

let found: { readonly starter: Starter | undefined } | undefined

function findStarter(): Starter | undefined {
  found ??= { starter: loadStarter() }
  return found.starter
}

function loadStarter(): Starter | undefined {
  try {
    return new Starter(createRequire(import.meta.url)(startAddon))
  } catch {
    return undefined
  }
}

class Starter {
  readonly #addon: StartAddon
  readonly #endings = new Map<number, (ending: ProgramEnding) => void>()

  constructor(addon: StartAddon) {
    this.#addon = addon
    addon.watchEnds((pid, exitCode, signal) => {
      const tell = this.#endings.get(pid)
      this.#endings.delete(pid)
      tell?.(signal === 0 ? { exitCode, signal: null } : { exitCode: null, signal: signalName(signal) })
    })
  }

  start({ argv, env, cwd, isDetached = false, stdio }: ProgramStart): Program {
    const variables = env && Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const wanted = stdio.map((each) => (each === 'ignore' ? NOTHING : each === 'pipe' ? PIPE : each))
    const [pid, ...ours] = this.#addon.start(argv, variables ?? null, cwd ?? null, isDetached, wanted)
    const exited = new Promise<ProgramEnding>((resolve) => this.#endings.set(pid, resolve))
    const streams = ours.map((fd, index) =>
      fd === NOTHING ? undefined : new Socket({ fd, readable: index > 0, writable: true }),
    )
    return watch({ pid, streams, exited, kill: (signal) => process.kill(pid, signal) })
  }
}

/** How Node starts a process; works on every host. */
export function startByNode({ argv, env, cwd, isDetached = false, stdio }: ProgramStart): Program {
  const [file, ...rest] = argv
  const child = spawn(file, rest, {
    stdio: [...stdio],
    detached: isDetached,
    ...(env !== undefined && { env }),
    ...(cwd !== undefined && { cwd }),
  })
  const { pid } = child
  if (pid === undefined) throw notStarted(child, file)
  const exited = once(child, 'exit').then(([exitCode, signal]) => ({ exitCode, signal }))
  const streams = child.stdio.map((stream) => (stream as Duplex | null) ?? undefined)
  return watch({ pid, streams, exited, kill: (signal) => child.kill(signal) })
}

interface Started extends Pick<Program, 'pid' | 'streams' | 'exited'> {
  readonly kill: (signal: NodeJS.Signals) => void
}

function watch({ pid, streams, exited, kill }: Started): Program {
  let isRunning = true
  const closings = streams.map(
    (stream) => stream && new Promise<void>((resolve) => stream.once('close', () => resolve())),
  )
  const ended = exited.then((ending) => {
    isRunning = false
    const [input] = streams
    input?.destroy()
    return ending
  })
  return {
    pid,
    streams,
    get isRunning() {
      return isRunning
    },
    exited: ended,
    closed: ended.then(async (ending) => {
      // A stream that is not read would never end.
      for (const stream of streams) if (stream?.readable) stream.resume()
      await Promise.all(closings)
      return ending
    }),
    kill(signal = 'SIGTERM') {
      if (isRunning) kill(signal)
    },
  }
}

function notStarted(child: ReturnType<typeof spawn>, file: string): Error {
  child.once('error', () => {})
  return Object.assign(new Error(`${file} cannot be started`), { code: 'ENOENT' })
}

function signalName(number: number): NodeJS.Signals {
  const entry = Object.entries(constants.signals).find(([, value]) => value === number)
  return (entry?.[0] ?? 'SIGKILL') as NodeJS.Signals
}
