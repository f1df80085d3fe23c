import { constants } from 'node:os'
import { onAbort } from '@dormouse/async'
import type { ConnectProcess, ProcessExit } from '@dormouse/engine'
import type { PtyInfo, ServerChannel, ServerSession } from 'ssh2'
import { ConnectionHold } from '../api/preview/connection-hold.ts'
import type { AttachedProcess } from '../sandbox/attached-process.ts'
import { ChannelWriter } from './channel-writer.ts'
import type { ChannelParts } from './connection-parts.ts'
import { ENV_MAX, ENV_VALUE_MAX_CHARACTERS, SIGNALS_MAX } from './limits.ts'

type Program = ({ readonly args: readonly string[] } | { readonly shell: string }) & {
  /** A caller waits for its end, so it is work even while it is silent. Terminals are not. */
  readonly isAwaited: boolean
}

const SHELL: Program = { args: ['/bin/bash', '-l'], isAwaited: false }
const SFTP: Program = { args: ['/usr/lib/openssh/sftp-server'], isAwaited: false }
/** The variables that sshd accepts by default, and those that control colours. */
const ENV_NAME = /^(?:LANG|LC_[A-Z]+|COLORTERM|NO_COLOR)$/
const TERM_NAME = /^[A-Za-z0-9._+-]{1,64}$/
const SIZE_MAX = 65_535
/** Signals that have a name in SSH. Other endings are reported as a status. */
const SIGNALS = new Set([
  'ABRT',
  'ALRM',
  'FPE',
  'HUP',
  'ILL',
  'INT',
  'KILL',
  'PIPE',
  'QUIT',
  'SEGV',
  'TERM',
  'USR1',
  'USR2',
])
/** The exit status of ssh when the failure is not the program's. */
const FAILED = 255

/** One session: at most one program, with or without a terminal. */
export class SshSession {
  readonly #connection: ChannelParts
  readonly #gone = new AbortController()
  readonly #env: Record<string, string> = {}
  #pty: { cols: number; rows: number } | undefined
  #running: AttachedProcess | undefined
  #signals = 0

  constructor(session: ServerSession, connection: ChannelParts) {
    this.#connection = connection
    const leave = () => this.#gone.abort()
    const listener = onAbort(connection.closed, leave)
    onAbort(this.#gone.signal, () => listener[Symbol.dispose]())
    session.on('close', leave)
    session.on('env', (accept, reject, { key, val }) => (this.#takeEnv(key, val) ? accept?.() : reject?.()))
    session.on('pty', (accept, _reject, info) => {
      this.#takeTerminal(info)
      accept?.()
    })
    session.on('window-change', (_accept, _reject, info) => this.#resize(sizeOf(info)))
    session.on('signal', (_accept, _reject, { name }) => this.#signal(name))
    // Accepted at once: otherwise ssh2 drops what the client sends next. The data waits in the channel.
    session.on('shell', (accept) => this.#serve(accept(), SHELL))
    session.on('exec', (accept, _reject, { command }) =>
      this.#serve(accept(), { shell: command, isAwaited: true }),
    )
    session.on('subsystem', (accept, reject, { name }) => {
      if (name === 'sftp') this.#serve(accept(), SFTP)
      else reject?.()
    })
  }

  #takeEnv(name: string, value: string): boolean {
    const isTaken =
      ENV_NAME.test(name) &&
      value.length <= ENV_VALUE_MAX_CHARACTERS &&
      !value.includes('\0') &&
      Object.keys(this.#env).length < ENV_MAX
    if (isTaken) this.#env[name] = value
    return isTaken
  }

  #takeTerminal(info: PtyInfo): void {
    this.#pty = sizeOf(info)
    if (TERM_NAME.test(info.term)) this.#env['TERM'] = info.term
  }

  #serve(channel: ServerChannel | undefined, program: Program): void {
    // The session has ended, or already has a program.
    if (channel === undefined) return
    channel.on('error', () => {})
    channel.once('close', () => this.#gone.abort())
    this.#connection.watch(channel)
    void this.#run(channel, program)
  }

  async #run(channel: ServerChannel, program: Program): Promise<void> {
    const { socket, fail } = this.#connection
    const writer = new ChannelWriter(channel, { socket, gone: this.#gone.signal })
    try {
      const exit = await this.#relay(channel, program, writer)
      if (exit !== undefined) tell(channel, exit)
    } catch (error) {
      if (!this.#gone.signal.aborted) {
        const { message, hint } = fail(error)
        await writer.write('stderr', Buffer.from(`dormouse: ${message}\r\n  ${hint}\r\n`))
        channel.exit(FAILED)
      }
    }
    // Discards what the client still sends; unread data would keep the channel open.
    channel.resume()
    channel.end()
    this.#running = undefined
  }

  /** Returns undefined when the client has disconnected. */
  async #relay(
    channel: ServerChannel,
    { isAwaited, ...program }: Program,
    writer: ChannelWriter,
  ): Promise<ProcessExit | undefined> {
    const { sandbox: find, parts, addresses } = this.#connection
    const { signal } = this.#gone
    const sandbox = find()
    const what = 'an SSH session'
    // Taken before the waking call ends: the sandbox could fall asleep in between.
    using hold = new ConnectionHold(sandbox, { what, idleMs: parts.idleConnectionMs })
    const request = {
      ...program,
      env: {
        SSH_CONNECTION: addresses.join(' '),
        SSH_CLIENT: [...addresses.slice(0, 2), addresses[3]].join(' '),
        ...this.#env,
      },
      ...(this.#pty !== undefined && { pty: this.#pty }),
    } as ConnectProcess
    const process = await sandbox.attachProcess(request, { cause: 'ssh', what, signal })
    if (!isAwaited || this.#pty !== undefined) hold.mayIdle()
    this.#running = process
    // The size may have changed while the process started.
    if (this.#pty !== undefined && this.#pty !== request.pty) process.resize(this.#pty)
    forwardInput(channel, process, hold)
    for await (const { stream, data } of process.output()) {
      hold.touch()
      if (!(await writer.write(stream, data))) return undefined
    }
    return process.exit
  }

  #resize(size: { cols: number; rows: number }): void {
    if (this.#running !== undefined) this.#running.resize(size)
    else if (this.#pty !== undefined) this.#pty = size
  }

  #signal(name: string): void {
    const signal = `SIG${name}`
    if (!(signal in constants.signals) || this.#signals >= SIGNALS_MAX || this.#running === undefined) return
    this.#signals += 1
    void this.#running.signal(signal).finally(() => {
      this.#signals -= 1
    })
  }
}

/** Not `for await`, which destroys the channel at the end of this half. */
function forwardInput(channel: ServerChannel, process: AttachedProcess, hold: ConnectionHold): void {
  channel.on('data', (piece: Buffer) => {
    hold.touch()
    channel.pause()
    void process.write(piece).then(() => channel.resume())
  })
  channel.once('end', () => process.end())
}

function tell(channel: ServerChannel, { exitCode, signal }: ProcessExit): void {
  const name = signal?.replace(/^SIG/, '')
  if (name !== undefined && SIGNALS.has(name)) channel.exit(name, false, '')
  else channel.exit(exitCode)
}

function sizeOf({ cols, rows }: Pick<PtyInfo, 'cols' | 'rows'>): { cols: number; rows: number } {
  const bounded = (value: number, otherwise: number) =>
    Number.isInteger(value) && value > 0 ? Math.min(value, SIZE_MAX) : otherwise
  return { cols: bounded(cols, 80), rows: bounded(rows, 24) }
}
