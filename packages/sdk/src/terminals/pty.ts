import { DormouseError } from '../error.ts'
import type { Abortable } from '../options.ts'
import type { Command } from '../processes/command.ts'
import { endedError, type PtyExit, type TerminalConnection } from './terminal-connection.ts'

/** A process with a terminal. It reconnects after a lost connection; the process continues without one. */
export class Pty {
  readonly pid: number
  readonly #command: Command
  readonly #connection: TerminalConnection
  #hasEnded: boolean
  #isDisconnected = false

  constructor(command: Command, connection: TerminalConnection, { hasEnded = false } = {}) {
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
  async write(data: string | Uint8Array): Promise<void> {
    if (this.#hasEnded) throw endedError()
    if (this.#isDisconnected)
      throw new DormouseError('conflict', 'The terminal was disconnected', {
        hint: '`pty.connect(pid)` connects to it again.',
      })
    return this.#connection.type(typeof data === 'string' ? new TextEncoder().encode(data) : data)
  }

  resize(size: { cols: number; rows: number }, options: Abortable = {}): Promise<void> {
    return this.#command.resize(size, options)
  }

  /** Sends a signal, by default `SIGKILL`, to it and its process group. */
  kill(name?: string, options: Abortable = {}): Promise<void> {
    return this.#command.kill(name, options)
  }

  /** Waits for its end. */
  wait(): Promise<PtyExit> {
    return this.#connection.ended
  }

  /** Closes the connection. The process continues; `pty.connect(pid)` connects again. */
  disconnect(): void {
    this.#isDisconnected = true
    this.#connection.close()
  }
}
