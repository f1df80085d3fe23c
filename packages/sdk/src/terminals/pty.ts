import { invalidArgument } from '../check.ts'
import { DormouseError } from '../error.ts'
import type { CallOptions } from '../options.ts'
import type { Command } from '../processes/command.ts'
import { unlessAborted, withinTime } from '../timing.ts'
import { endedError, type PtyExit, type TerminalConnection } from './terminal-connection.ts'

/** A process with a terminal. It reconnects after a lost connection; the process continues without one. */
export class Pty {
  readonly id: string
  readonly pid: number
  readonly #command: Command
  readonly #connection: TerminalConnection
  #hasEnded: boolean
  #isDisconnected = false

  constructor(command: Command, connection: TerminalConnection, { hasEnded = false } = {}) {
    this.id = command.id
    this.pid = command.pid
    this.#command = command
    this.#connection = connection
    this.#hasEnded = hasEnded
    const end = () => {
      this.#hasEnded = true
    }
    connection.ended.then(end, () => {})
  }

  /** Types `data`. Wakes the sandbox. Rejects with `conflict` if it has ended or was disconnected. */
  async write(data: string | Uint8Array, options: CallOptions = {}): Promise<void> {
    if (this.#hasEnded) throw endedError()
    if (this.#isDisconnected)
      throw new DormouseError('conflict', 'The terminal was disconnected', {
        hint: '`pty.connect(id)` connects to it again.',
      })
    if (typeof data !== 'string' && !(data instanceof Uint8Array))
      throw invalidArgument('data', 'must be a string or bytes', data)
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    return withinTime(options, (signal) => unlessAborted(this.#connection.type(bytes), signal))
  }

  resize(size: { cols: number; rows: number }, options: CallOptions = {}): Promise<void> {
    return this.#command.resize(size, options)
  }

  /** Sends a signal, by default `SIGKILL`, to it and its process group. */
  kill(name?: string, options: CallOptions = {}): Promise<void> {
    return this.#command.kill(name, options)
  }

  /** Waits for its end. Aborting, or `timeoutMs`, only stops waiting. */
  wait(options: CallOptions = {}): Promise<PtyExit> {
    return withinTime(options, (signal) => unlessAborted(this.#connection.ended, signal))
  }

  /** Closes the connection. The process continues; `pty.connect(id)` connects again. */
  disconnect(): void {
    this.#isDisconnected = true
    this.#connection.close()
  }
}
