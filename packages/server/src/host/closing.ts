/** Closes resources in the opposite order of opening. (Node 20 has no AsyncDisposableStack.) */
export class Closing implements AsyncDisposable {
  readonly #opened: (AsyncDisposable | Disposable)[] = []

  use<Opened extends AsyncDisposable | Disposable>(opened: Opened): Opened {
    this.#opened.push(opened)
    return opened
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const errors: unknown[] = []
    for (let last = this.#opened.pop(); last !== undefined; last = this.#opened.pop()) {
      try {
        if (Symbol.asyncDispose in last) await last[Symbol.asyncDispose]()
        else last[Symbol.dispose]()
      } catch (error) {
        errors.push(error)
      }
    }
    if (errors.length > 0) throw errors[0]
  }
}
