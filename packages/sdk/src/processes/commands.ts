import type { ProcessListAnswer } from '../contract/index.ts'
import { cancelled, throwIfAborted } from '../error.ts'
import type { Http } from '../http/http.ts'
import type { Abortable } from '../options.ts'
import { Command } from './command.ts'
import {
  type CommandLine,
  type CommandResult,
  commandBody,
  type ProcessInfo,
  type RunCommandOptions,
  type StartOptions,
} from './command-options.ts'

/** Commands of a sandbox. */
export class Commands {
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string) {
    this.#http = http
    this.#path = sandboxPath
  }

  /** Runs a command to its end. Aborting kills it. */
  async run(line: CommandLine, options: RunCommandOptions = {}): Promise<CommandResult> {
    const { input, onStdout, onStderr, signal, ...rest } = options
    throwIfAborted(signal)
    // Without the signal: a command whose pid is unknown could not be killed.
    const command = await this.start(line, { ...rest, ...(input === undefined ? {} : { stdin: true }) })
    try {
      const [result] = await Promise.all([
        command.wait({ onStdout, onStderr, signal }),
        input === undefined ? undefined : feed(command, input, signal),
      ])
      return result
    } catch (error) {
      if (!signal?.aborted) throw error
      await command.kill().catch(() => {})
      throw cancelled(signal)
    }
  }

  /** Starts a command in the background. It ends by itself, by a signal or by its time-out. */
  async start(line: CommandLine, { signal, ...options }: StartOptions = {}): Promise<Command> {
    const { pid } = await this.#http.json<ProcessInfo>({
      method: 'POST',
      path: `${this.#path}/processes`,
      json: { ...commandBody(line), ...options },
      signal,
    })
    return new Command(this.#http, this.#path, pid)
  }

  /** A command that was started before. Throws `not_found`. */
  async connect(pid: number, options: Abortable = {}): Promise<Command> {
    const command = new Command(this.#http, this.#path, pid)
    await command.info(options)
    return command
  }

  /** The commands that run, and the last ones that have ended. */
  async list({ signal }: Abortable = {}): Promise<readonly ProcessInfo[]> {
    return (await this.#http.json<ProcessListAnswer>({ path: `${this.#path}/processes`, signal })).items
  }
}

/** Ignores errors: a command may end without reading all of its input. */
async function feed(command: Command, input: string | Uint8Array, signal?: AbortSignal): Promise<void> {
  await command.sendStdin(input, { close: true, signal }).catch((error: unknown) => {
    if (signal?.aborted) throw error
  })
}
