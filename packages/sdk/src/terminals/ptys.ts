import type { StartProcessBody } from '../contract/index.ts'
import type { Http } from '../http/http.ts'
import type { Abortable, CallOptions } from '../options.ts'
import { Command } from '../processes/command.ts'
import { type CommandLine, commandBody, type ProcessInfo } from '../processes/command-options.ts'
import { findProcess } from '../processes/commands.ts'
import { HttpConnection } from './http-connection.ts'
import { Pty } from './pty.ts'
import type { SocketConstructor } from './socket.ts'
import { SocketConnection } from './socket-connection.ts'

interface PtyListener {
  /** Gets the output, with control sequences. */
  readonly onData?: ((text: string) => void) | undefined
}

export interface ConnectPtyOptions extends CallOptions, PtyListener {
  /** Skips output up to this `seq`. Default: all that the server has. */
  readonly after?: number
}

export interface CreatePtyOptions
  extends Abortable,
    PtyListener,
    Pick<StartProcessBody, 'cwd' | 'env' | 'user' | 'timeoutMs'> {
  /** Default: 80 by 24. */
  readonly cols?: number
  readonly rows?: number
  /** Default: an interactive shell. */
  readonly command?: CommandLine | undefined
}

const SHELL = ['/bin/bash', '-i']

/** Terminals of a sandbox. */
export class Ptys {
  readonly #http: Http
  readonly #path: string
  readonly #socket: SocketConstructor | undefined

  constructor(http: Http, sandboxPath: string, socket: SocketConstructor | undefined) {
    this.#http = http
    this.#path = sandboxPath
    this.#socket = socket
  }

  /** Starts a shell or another command in a terminal. */
  async create(options: CreatePtyOptions = {}): Promise<Pty> {
    const { cols = 80, rows = 24, command = SHELL, env, onData, signal, ...rest } = options
    const started = await this.#http.json<ProcessInfo>({
      method: 'POST',
      path: `${this.#path}/processes`,
      json: {
        ...commandBody(command),
        ...rest,
        env: { TERM: 'xterm-256color', ...env },
        pty: { cols, rows },
      },
      signal,
    })
    return this.#attach(started, { onData })
  }

  /** Connects to the terminal of a process, by its id, or by its pid while it runs. */
  async connect(id: string | number, options: ConnectPtyOptions = {}): Promise<Pty> {
    const found = await findProcess(this.#http, this.#path, id, options)
    return this.#attach(found, options, { hasEnded: found.state === 'exited' })
  }

  #attach(
    process: ProcessInfo,
    { onData = () => {}, after = -1 }: ConnectPtyOptions,
    known: { hasEnded?: boolean } = {},
  ): Pty {
    const options = { path: `${this.#path}/processes/${process.processId}`, onData, after }
    const connection =
      this.#socket === undefined
        ? new HttpConnection(this.#http, options)
        : new SocketConnection(this.#http, this.#socket, options)
    return new Pty(new Command(this.#http, this.#path, process), connection, known)
  }
}
