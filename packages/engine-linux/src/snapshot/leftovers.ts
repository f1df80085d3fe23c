import { setTimeout as sleep } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { removeTree } from '../host/publish-directory.ts'

const AGAIN_MS = 1_000
const AGAIN_MAX_MS = 60_000

/** What nobody has to wait for. What is left when the engine closes is removed at the next start. */
export class Leftovers implements AsyncDisposable {
  readonly #removals = new Set<Promise<void>>()
  readonly #closing = new AbortController()

  removeTree(path: string): void {
    this.#add(removeTree(path).catch(() => {}))
  }

  /** Pre: all of it is saved, but it could not be removed: something of the host holds it, or a process that ends takes long. */
  destroy(burrow: LinuxBurrow): void {
    void this.#destroyInTime(burrow)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#removals)
  }

  async #destroyInTime(burrow: LinuxBurrow): Promise<void> {
    const { signal } = this.#closing
    for (let pauseMs = AGAIN_MS; ; pauseMs = Math.min(pauseMs * 2, AGAIN_MAX_MS)) {
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      const destroying = burrow.destroy()
      this.#add(destroying.catch(() => {}))
      const [outcome] = await Promise.allSettled([destroying])
      if (outcome.status === 'fulfilled') return
    }
  }

  #add(work: Promise<void>): void {
    this.#removals.add(work)
    void work.finally(() => this.#removals.delete(work))
  }
}
