import { throwIfAborted } from '../error.ts'
import type { Sandbox } from '../sandbox.ts'

/** One call to the server makes so many at most. */
const FORK_MAX = 100
/** Should this process die, its children delete themselves so long after their last work. */
const ORPHAN_MS = 10 * 60_000

interface Waiting {
  readonly resolve: (child: Sandbox) => void
  readonly reject: (error: unknown) => void
}

/** Children on demand. Those who ask while a fork is under way share the next one: it costs the same for many as for one. */
export class Forks {
  readonly #parent: Sandbox
  readonly #signal: AbortSignal | undefined
  #waiting: Waiting[] = []
  #isForking = false

  constructor(parent: Sandbox, signal: AbortSignal | undefined) {
    this.#parent = parent
    this.#signal = signal
  }

  /** A child for `work`, deleted afterwards, come what may, unless `keep` says otherwise. */
  async use<Value>(work: (child: Sandbox) => Promise<Value>, keep: (value: Value) => boolean = () => false) {
    throwIfAborted(this.#signal)
    const child = await this.#take()
    let isKept = false
    try {
      throwIfAborted(this.#signal)
      await child.update({ ephemeral: true, idleTimeoutMs: ORPHAN_MS })
      const value = await work(child)
      isKept = keep(value)
      return value
    } finally {
      if (!isKept) await drop(child)
    }
  }

  #take(): Promise<Sandbox> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      // In a moment: those who start together fork together.
      if (!this.#isForking) queueMicrotask(() => this.#fork())
    })
  }

  async #fork(): Promise<void> {
    if (this.#isForking) return
    this.#isForking = true
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, FORK_MAX)
      try {
        // Without the signal: children that nobody has heard of could not be deleted.
        const children = await this.#parent.fork(batch.length)
        for (const [index, { resolve }] of batch.entries()) resolve(children[index] as Sandbox)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isForking = false
  }
}

/** One that is gone already is fine, and one that cannot be deleted now will delete itself. */
export async function drop(child: Sandbox): Promise<void> {
  await child.delete().catch(() => {})
}
