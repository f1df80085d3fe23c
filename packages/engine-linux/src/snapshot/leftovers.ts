import { setTimeout as sleep } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { FailureLog } from '../host/failure-log.ts'
import { removeTree } from '../host/publish-directory.ts'

const RETRY_MS = 1_000
const RETRY_MAX_MS = 60_000

/** Removes in the background what no caller waits for. The next start removes what is left when the engine closes. */
export class Leftovers implements AsyncDisposable {
  readonly #failures: FailureLog
  readonly #removals = new Set<Promise<void>>()
  readonly #closing = new AbortController()

  constructor(failures: FailureLog) {
    this.#failures = failures
  }

  removeTree(path: string, fields: object): void {
    this.#add(
      removeTree(path).catch((error: unknown) =>
        this.#failures.report('removal', error, fields, 'a directory was not removed'),
      ),
    )
  }

  /**
   * Destroys a burrow, with retries. Pre: a first attempt failed with `error`, because something of the host holds the
   * burrow or a process takes long to end, and everything in it is saved or no longer needed.
   */
  destroy(burrow: LinuxBurrow, error: unknown): void {
    this.#report(burrow, error)
    void this.#retryDestroy(burrow)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#removals)
  }

  async #retryDestroy(burrow: LinuxBurrow): Promise<void> {
    const { signal } = this.#closing
    for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_MAX_MS)) {
      // Rejects when the engine closes.
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      const destroying = burrow.destroy()
      // The failure is reported below.
      this.#add(destroying.catch(() => {}))
      const [outcome] = await Promise.allSettled([destroying])
      if (outcome.status === 'fulfilled') return
      this.#report(burrow, outcome.reason)
    }
  }

  #report({ sandboxId, id: burrowId }: LinuxBurrow, error: unknown): void {
    this.#failures.report('removal', error, { sandboxId, burrowId }, 'a burrow was not removed yet')
  }

  #add(work: Promise<void>): void {
    this.#removals.add(work)
    void work.finally(() => this.#removals.delete(work))
  }
}
