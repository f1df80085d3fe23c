import { throwIfAborted } from '../error.ts'
import type { Sandbox } from '../sandbox.ts'

/** The server makes at most this many in one call. */
const FORK_MAX = 100
/** If this process dies, the server deletes its children this long after their last use. */
const ORPHAN_MS = 10 * 60_000

interface Waiting {
  readonly resolve: (child: Sandbox) => void
  readonly reject: (error: unknown) => void
}

/** Makes children in batches: forking many at once costs as much as forking one. */
export class Forks {
  readonly #parent: Sandbox
  readonly #signal: AbortSignal | undefined
  #waiting: Waiting[] = []
  #isForking = false

  constructor(parent: Sandbox, signal: AbortSignal | undefined) {
    this.#parent = parent
    this.#signal = signal
  }

  /** Calls `work` with a child, and deletes the child afterwards unless `keep` returns true. */
  async use<Value>(work: (child: Sandbox) => Promise<Value>, keep: (value: Value) => boolean = () => false) {
    throwIfAborted(this.#signal)
    const child = await this.#take()
    let isKept = false
    try {
      throwIfAborted(this.#signal)
      await child.update({ ephemeral: true, expires: { idleMs: ORPHAN_MS, action: 'delete' } })
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
      // In a microtask, so that calls of the same moment share a fork.
      if (!this.#isForking) queueMicrotask(() => this.#fork())
    })
  }

  async #fork(): Promise<void> {
    if (this.#isForking) return
    this.#isForking = true
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, FORK_MAX)
      try {
        // Without the signal: children whose ids are unknown could not be deleted.
        const children = await this.#parent.fork(batch.length)
        for (const [index, { resolve }] of batch.entries()) resolve(children[index] as Sandbox)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isForking = false
  }
}

/** Deletes a child. Ignores errors: it may be deleted already, and the server deletes it later otherwise. */
export async function drop(child: Sandbox): Promise<void> {
  await child.delete().catch(() => {})
}
