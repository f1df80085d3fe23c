import { DormouseError } from '../error.ts'
import type { Abortable } from '../options.ts'
import type { Command } from '../processes/command.ts'
import { hasEnded, type Line, type PtyExit } from './line.ts'

/** A terminal with a process in it. Lost connections are made again by themselves; the process lives on without any. */
export class Pty {
  readonly pid: number
  readonly #command: Command
  readonly #line: Line
  #hasEnded: boolean
  #isLeft = false

  constructor(command: Command, line: Line, { hasEnded = false } = {}) {
    this.pid = command.pid
    this.#command = command
    this.#line = line
    this.#hasEnded = hasEnded
    const end = () => {
      this.#hasEnded = true
    }
    line.ended.then(end, () => {})
  }

  /** Types. Wakes the sandbox if need be. Rejects with `conflict` when it has ended, or was disconnected. */
  async write(data: string | Uint8Array): Promise<void> {
    if (this.#hasEnded) throw hasEnded()
    if (this.#isLeft)
      throw new DormouseError('conflict', 'The terminal was disconnected', {
        hint: '`pty.connect(pid)` connects to it again.',
      })
    return this.#line.type(typeof data === 'string' ? new TextEncoder().encode(data) : data)
  }

  resize(size: { cols: number; rows: number }, options: Abortable = {}): Promise<void> {
    return this.#command.resize(size, options)
  }

  /** A signal to it and its group; `SIGKILL` if not given. */
  kill(name?: string, options: Abortable = {}): Promise<void> {
    return this.#command.kill(name, options)
  }

  /** Its end. */
  wait(): Promise<PtyExit> {
    return this.#line.ended
  }

  /** Hangs up. The process goes on, and `pty.connect(pid)` finds it again. */
  disconnect(): void {
    this.#isLeft = true
    this.#line.close()
  }
}
