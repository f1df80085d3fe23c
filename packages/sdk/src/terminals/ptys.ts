import type { StartProcessBody } from '../contract/index.ts'
import type { Http } from '../http/http.ts'
import type { Abortable } from '../options.ts'
import { Command } from '../processes/command.ts'
import { type CommandLine, commandBody, type ProcessInfo } from '../processes/command-options.ts'
import { HttpLine } from './http-line.ts'
import { Pty } from './pty.ts'
import type { SocketConstructor } from './socket.ts'
import { SocketLine } from './socket-line.ts'

export interface ConnectPtyOptions extends Abortable {
  /** What the terminal shows, with its control sequences. */
  readonly onData?: ((text: string) => void) | undefined
  /** Only what came after this `seq`; all that is held if not given. */
  readonly after?: number
}

export interface CreatePtyOptions
  extends Omit<ConnectPtyOptions, 'after'>,
    Pick<StartProcessBody, 'cwd' | 'env' | 'user' | 'timeoutMs'> {
  /** 80 by 24 if not given. */
  readonly cols?: number
  readonly rows?: number
  /** Instead of an interactive shell. */
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

  /** Opens a shell, or starts a command, in a terminal. */
  async create(options: CreatePtyOptions = {}): Promise<Pty> {
    const { cols = 80, rows = 24, command = SHELL, env, onData, signal, ...rest } = options
    const { pid } = await this.#http.json<ProcessInfo>({
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
    return this.#attach(pid, { onData })
  }

  /** The terminal of a process that was started before. */
  async connect(pid: number, options: ConnectPtyOptions = {}): Promise<Pty> {
    const { signal } = options
    const { state } = await this.#http.json<ProcessInfo>({ path: `${this.#path}/processes/${pid}`, signal })
    return this.#attach(pid, options, { hasEnded: state === 'exited' })
  }

  #attach(
    pid: number,
    { onData = () => {}, after = -1 }: ConnectPtyOptions,
    known: { hasEnded?: boolean } = {},
  ): Pty {
    const options = { path: `${this.#path}/processes/${pid}`, onData, after }
    const line =
      this.#socket === undefined
        ? new HttpLine(this.#http, options)
        : new SocketLine(this.#http, this.#socket, options)
    return new Pty(new Command(this.#http, this.#path, pid), line, known)
  }
}
