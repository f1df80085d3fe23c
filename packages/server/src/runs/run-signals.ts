import { onAbort } from '@dormouse/async'

/** Lets readers wait for a run that no `LiveRun` follows at the moment, until it is followed again or has ended. */
export class RunSignals {
  readonly #waiting = new Map<string, Set<() => void>>()

  /** Resolves when `notify` is called with this key, or the signal aborts. */
  wait(key: string, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting)
      const leave = () => {
        waiting.delete(leave)
        if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key)
        listener[Symbol.dispose]()
        resolve()
      }
      waiting.add(leave)
      const listener = onAbort(signal, leave)
    })
  }

  notify(key: string): void {
    for (const leave of [...(this.#waiting.get(key) ?? [])]) leave()
  }

  /** Notifies all readers whose key begins with `prefix`. */
  notifyAll(prefix = ''): void {
    for (const key of [...this.#waiting.keys()]) if (key.startsWith(prefix)) this.notify(key)
  }
}
