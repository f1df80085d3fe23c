import { Writable } from 'node:stream'
import type { WriteStream } from 'node:tty'

/** A terminal whose output can be hidden, for passwords. */
export class MutableOutput extends Writable {
  readonly #terminal: WriteStream
  isMuted = false

  constructor(terminal: WriteStream) {
    super()
    this.#terminal = terminal
    terminal.on('resize', () => this.emit('resize'))
  }

  /** Read by `readline`, which breaks long lines. */
  get columns(): number {
    return this.#terminal.columns
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    if (!this.isMuted) this.#terminal.write(chunk)
    done()
  }
}
