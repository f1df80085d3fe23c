import { isSandboxId, type SandboxId } from '@dormouse/contracts'
import type { FailedLookupAnswer } from '@dormouse/contracts/http'
import type { ServerClock } from '../clock/server-clock.ts'

const RECENT_MAX = 50

/**
 * Recent failed look-ups of each sandbox, in memory. Not in the ledger: no rule refused anything, and one wrong name in
 * a loop would push out what matters.
 */
export class FailedLookupHistory {
  readonly #clock: Pick<ServerClock, 'wallMs'>
  readonly #recent = new Map<SandboxId, FailedLookupAnswer[]>()

  constructor(clock: Pick<ServerClock, 'wallMs'>) {
    this.#clock = clock
  }

  /** A name that failed before for the same reason gets a new time. */
  add(sandboxId: string, { name, reason }: { readonly name: string; readonly reason: string }): void {
    if (!isSandboxId(sandboxId)) return
    const others = this.recent(sandboxId).filter((other) => other.name !== name || other.reason !== reason)
    const at = new Date(this.#clock.wallMs()).toISOString()
    this.#recent.set(sandboxId, [{ at, name, reason }, ...others].slice(0, RECENT_MAX))
  }

  /** Newest first. */
  recent(id: SandboxId): readonly FailedLookupAnswer[] {
    return this.#recent.get(id) ?? []
  }

  forget(id: SandboxId): void {
    this.#recent.delete(id)
  }
}
