import type { CommandIo } from './command-io.ts'

const CTRL_C = '\u0003'
const CTRL_D = '\u0004'

/** While this exists, keys are not shown, and `q` aborts `signal`. Disposing restores the terminal. */
export class QuitKey implements Disposable {
  readonly #stdin: CommandIo['stdin']
  readonly #quit = new AbortController()
  readonly #onKeys: (keys: Buffer) => void
  readonly #onEnd = () => this.#quit.abort()

  constructor({ stdin }: Pick<CommandIo, 'stdin'>) {
    this.#stdin = stdin
    this.#onKeys = (keys) => {
      const typed = keys.toString()
      // A terminal in raw mode sends the key instead of the signal.
      if (typed.includes(CTRL_C)) process.kill(process.pid, 'SIGINT')
      else if (/q/i.test(typed) || typed.includes(CTRL_D)) this.#quit.abort()
    }
    if (!stdin.isTTY) return
    stdin.setRawMode(true)
    stdin.on('data', this.#onKeys)
    stdin.on('end', this.#onEnd)
    // The modes of a lost terminal cannot be reset.
    stdin.on('error', this.#onEnd)
  }

  get signal(): AbortSignal {
    return this.#quit.signal
  }

  [Symbol.dispose](): void {
    if (!this.#stdin.isTTY) return
    this.#stdin.off('data', this.#onKeys)
    this.#stdin.off('end', this.#onEnd)
    this.#stdin.setRawMode(false)
    this.#stdin.pause()
  }
}
