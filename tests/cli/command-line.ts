import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'

const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))
const driver = fileURLToPath(new URL('terminal.py', import.meta.url))

export interface Ended {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Typed {
  readonly input?: string | Buffer
  readonly env?: Record<string, string>
  /** Sends this signal once stdout or stderr shows the pattern. */
  readonly interruptAt?: { readonly shows: RegExp; readonly signal?: NodeJS.Signals }
}

/** Runs `./dormouse` against a real server that belongs to the test. */
export interface CommandLine {
  readonly server: ServerProcess
  readonly env: Record<string, string>
  run(args: readonly string[], typed?: Typed): Promise<Ended>
  /** The JSON of a command that must succeed. */
  // biome-ignore lint/suspicious/noExplicitAny: tests only compare the values
  json(args: readonly string[], typed?: Typed): Promise<any>
  terminal(args: readonly string[], env?: Record<string, string>): Terminal
  /** The same in a terminal that does not send SIGHUP when it goes away. */
  uncontrolledTerminal(args: readonly string[]): Terminal
}

export function useCommandLine(config: object = {}): CommandLine {
  let server: ServerProcess
  beforeAll(async () => {
    server = await ServerProcess.start(config)
  })
  afterAll(async () => {
    await server?.cleanUp()
  })
  const environment = () => ({
    ...(process.env as Record<string, string>),
    DORMOUSE_DATA: server.factory.stateDir,
    XDG_STATE_HOME: server.factory.stateDir,
    TERM: 'xterm-256color',
  })
  const run: CommandLine['run'] = (args, typed) =>
    runLauncher(args, { ...typed, env: { ...environment(), ...typed?.env } })
  return {
    get server() {
      return server
    },
    get env() {
      return environment()
    },
    run,
    async json(args, typed) {
      const { status, stdout, stderr } = await run([...args, '--json'], typed)
      if (status !== 0) throw new Error(`${args.join(' ')}: ${status} ${stderr}`)
      return JSON.parse(stdout)
    },
    terminal: (args, env) => new Terminal(args, { ...environment(), ...env }),
    uncontrolledTerminal: (args) => new Terminal(['--wait', launcher, ...args], environment(), 'setsid'),
  }
}

export async function runLauncher(
  args: readonly string[],
  { input = '', env, interruptAt }: Typed,
): Promise<Ended> {
  const child = spawn(launcher, [...args], env === undefined ? {} : { env })
  let stdout = ''
  let stderr = ''
  const look = () => {
    if (interruptAt?.shows.test(stdout + stderr) !== true) return
    child.kill(interruptAt.signal ?? 'SIGINT')
    interruptAt = undefined
  }
  child.stdout.on('data', (data) => {
    stdout += data
    look()
  })
  child.stderr.on('data', (data) => {
    stderr += data
    look()
  })
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [status] = await once(child, 'close')
  return { status, stdout, stderr }
}

const PATIENCE_MS = 20_000

/** A program in a real pseudo-terminal. */
export class Terminal {
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>
  #reports = ''
  text = ''

  constructor(args: readonly string[], env: Record<string, string>, program = launcher) {
    this.#child = spawn('python3', [driver, program, ...args], { env })
    this.#child.stdout?.on('data', (data) => {
      this.text += data
    })
    this.#child.stderr?.on('data', (data) => {
      this.#reports += data
    })
    this.#ended = once(this.#child, 'close')
  }

  type(text: string): void {
    this.#order({ type: text })
  }

  resize(rows: number, cols: number): void {
    this.#order({ size: [rows, cols] })
  }

  signal(name: string): void {
    this.#order({ signal: name })
  }

  async modes(): Promise<{ echo: boolean; canonical: boolean }> {
    this.#order({ modes: true })
    const report = () => /\{"modes": (?<modes>\{.*\})\}/.exec(this.#reports)?.groups?.['modes']
    await this.#until(() => report() !== undefined, 'the modes of the terminal')
    const modes = JSON.parse(report() ?? '')
    this.#reports = ''
    return modes
  }

  /** Waits until the output since the last match has the pattern, and discards everything before it. */
  async shows(pattern: RegExp): Promise<void> {
    await this.#until(
      () => pattern.test(this.text),
      () => `${pattern} in ${JSON.stringify(this.text.slice(-2000))}`,
    )
    const match = pattern.exec(this.text)
    this.text = this.text.slice((match?.index ?? 0) + (match?.[0].length ?? 0))
  }

  /** The exit status of the program. */
  async status(): Promise<number> {
    await this.#ended
    return JSON.parse(/\{"status": .*\}/.exec(this.#reports)?.[0] ?? '{}').status
  }

  /** Takes the terminal away, as when its window is closed. */
  hangUp(): void {
    this.#order({ hang_up: true })
  }

  /** Closes the terminal; a program that still runs gets SIGHUP. */
  close(): void {
    this.#child.stdin?.end()
  }

  #order(order: object): void {
    this.#child.stdin?.write(`${JSON.stringify(order)}\n`)
  }

  async #until(holds: () => boolean, what: string | (() => string)): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS
    while (!holds()) {
      if (Date.now() > deadline)
        throw new Error(`timed out waiting for ${typeof what === 'string' ? what : what()}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}
