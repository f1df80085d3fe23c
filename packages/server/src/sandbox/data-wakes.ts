import type { Clock } from '../clock/clock.ts'
import type { Log } from '../log.ts'
import type { Sandbox } from './sandbox.ts'

/** Data alone wakes a sandbox at most this often: the server at the other end decides when it sends. */
const PAUSE_MS = 10_000

/** Wakes sandboxes for data that arrives on their connections to the outside, if their policy says so. */
export class DataWakes implements Disposable {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #log: Log
  readonly #lastMs = new WeakMap<Sandbox, number>()
  readonly #due = new Map<Sandbox, NodeJS.Timeout>()

  constructor({ clock, log }: { clock: Pick<Clock, 'monotonicMs'>; log: Log }) {
    this.#clock = clock
    this.#log = log
  }

  [Symbol.dispose](): void {
    for (const timer of this.#due.values()) clearTimeout(timer)
    this.#due.clear()
  }

  /** Data waits for this sandbox. */
  arrived(sandbox: Sandbox): void {
    if (!sandbox.row.connections.wakeOnData || this.#due.has(sandbox)) return
    const lastMs = this.#lastMs.get(sandbox) ?? Number.NEGATIVE_INFINITY
    const pauseMs = Math.max(0, lastMs + PAUSE_MS - this.#clock.monotonicMs())
    this.#due.set(sandbox, setTimeout(() => void this.#wake(sandbox), pauseMs).unref())
  }

  async #wake(sandbox: Sandbox): Promise<void> {
    this.#due.delete(sandbox)
    // It may be awake by now, or have another policy.
    if (sandbox.row.state !== 'standby' || !sandbox.row.connections.wakeOnData) return
    this.#lastMs.set(sandbox, this.#clock.monotonicMs())
    await sandbox.wake('data').catch((error: unknown) => {
      const fields = { sandboxId: sandbox.id, err: error }
      this.#log.warn(fields, 'a sandbox for which data arrived could not be woken')
    })
  }
}
