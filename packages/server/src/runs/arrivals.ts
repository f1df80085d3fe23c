/** Lets readers of runs that nobody follows at the moment, as those of sleeping sandboxes, wait until one is taken up or ends. */
export class Arrivals {
  readonly #waiting = new Map<string, Set<() => void>>()

  /** Settles when `tell` is called with this key, or the signal is aborted. */
  next(key: string, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(key) ?? new Set()
      this.#waiting.set(key, waiting)
      const leave = () => {
        waiting.delete(leave)
        if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key)
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      waiting.add(leave)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }

  tell(key: string): void {
    for (const leave of [...(this.#waiting.get(key) ?? [])]) leave()
  }

  /** Everybody whose key begins with this. */
  tellAll(prefix = ''): void {
    for (const key of [...this.#waiting.keys()]) if (key.startsWith(prefix)) this.tell(key)
  }
}
