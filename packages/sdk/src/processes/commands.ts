import { pathPart } from '../check.ts'
import type { ProcessListAnswer } from '../contract/index.ts'
import { cancelled, DormouseError, throwIfAborted } from '../error.ts'
import { type Content, contentBody } from '../http/content.ts'
import type { Http } from '../http/http.ts'
import type { CallOptions } from '../options.ts'
import { Command } from './command.ts'
import {
  type CommandLine,
  commandBody,
  type ProcessInfo,
  type RunCommandOptions,
  type StartOptions,
} from './command-options.ts'
import type { CommandResult } from './command-result.ts'

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
    const { input: given, onStdout, onStderr, signal, ...rest } = options
    throwIfAborted(signal)
    // Read from now on: a Node stream whose error nothing awaits would end the program.
    const input = given === undefined ? undefined : (contentBody('input', given).body as Content)
    // Without the signal: a command whose id is unknown could not be killed.
    const command = await this.start(line, {
      ...rest,
      ...(input === undefined ? {} : { stdin: true }),
    }).catch(async (error: unknown) => {
      // The caller gets the first error.
      if (input instanceof ReadableStream) await input.cancel().catch(() => {})
      throw error
    })
    try {
      const [result] = await Promise.all([
        command.wait({ onStdout, onStderr, signal }),
        input === undefined ? undefined : feed(command, input, signal),
      ])
      return result
    } catch (error) {
      const isInputError = !(error instanceof DormouseError)
      if (!signal?.aborted && !isInputError) throw error
      // The command may have ended; the caller gets the first error.
      await command.kill().catch(() => {})
      throw signal?.aborted ? cancelled(signal) : error
    }
  }

  /** Starts a command in the background. It ends by itself, by a signal or by its time-out. */
  async start(line: CommandLine, { signal, ...options }: StartOptions = {}): Promise<Command> {
    const started = await this.#http.json<ProcessInfo>({
      method: 'POST',
      path: `${this.#path}/processes`,
      json: { ...commandBody(line), ...options },
      signal,
    })
    return new Command(this.#http, this.#path, started)
  }

  /** A command that was started before, by its id, or by its pid while it runs. Throws `not_found`. */
  async connect(id: string | number, options: CallOptions = {}): Promise<Command> {
    return new Command(this.#http, this.#path, await findProcess(this.#http, this.#path, id, options))
  }

  /** The commands that run, and the last ones that have ended. */
  async list({ signal, timeoutMs }: CallOptions = {}): Promise<readonly ProcessInfo[]> {
    return (await this.#http.json<ProcessListAnswer>({ path: `${this.#path}/processes`, signal, timeoutMs }))
      .items
  }
}

/** By its id, or by its pid while it runs. Throws `not_found`. */
export async function findProcess(
  http: Http,
  sandboxPath: string,
  id: string | number,
  limits: CallOptions,
): Promise<ProcessInfo> {
  return http.json({ path: `${sandboxPath}/processes/${pathPart('id', id)}`, ...limits })
}

/** Ignores errors of the server: a command may end without reading all of its input. */
async function feed(command: Command, input: Content, signal?: AbortSignal): Promise<void> {
  await command.sendStdin(input, { close: true, signal }).catch((error: unknown) => {
    if (signal?.aborted || !(error instanceof DormouseError)) throw error
  })
}
