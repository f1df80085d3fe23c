import { onAbort } from '@dormouse/async'
import type { SandboxId } from '@dormouse/contracts'
import type { ServerEventAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'

/** What a reader that lost its connection can catch up on: a minute of a busy server. About 200 bytes each. */
const EVENTS_KEPT = 4096
/** `seq` starts at the time of the start in microseconds, so that it grows also over restarts. */
const SEQ_PER_MS = 1000

type EventType = Exclude<ServerEventAnswer['type'], 'gap'>

export interface NewEvent {
  readonly type: EventType
  /** The API key that may see it; admins see all. Undefined: every key may. */
  readonly owner: string | undefined
  readonly sandboxId?: SandboxId
  /** Called when the event is sent. Undefined: there is nothing to send any more. */
  readonly data: () => Record<string, unknown> | undefined
}

interface KeptEvent extends NewEvent {
  readonly seq: number
  readonly atMs: number
}

export interface FollowEvents {
  /** Undefined: from now on. */
  readonly after: number | undefined
  readonly caller: Caller
  readonly sandboxId?: SandboxId | undefined
  readonly signal: AbortSignal
}

/** The newest events of the whole server, in memory. Publishing is cheap: it happens during wakes. */
export class EventFeed {
  readonly #nowMs: () => number
  #events: KeptEvent[] = []
  #lastSeq: number
  #waiters: (() => void)[] = []

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
    this.#lastSeq = Math.floor(nowMs()) * SEQ_PER_MS
  }

  publish(event: NewEvent): void {
    this.#lastSeq += 1
    this.#events.push({ ...event, seq: this.#lastSeq, atMs: this.#nowMs() })
    // Halved at once instead of shifted one by one.
    if (this.#events.length > 2 * EVENTS_KEPT) this.#events = this.#events.slice(-EVENTS_KEPT)
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** Ends with `signal`. A reader whose place is gone, or that begins, first gets a `gap`. */
  async *follow({ after, caller, sandboxId, signal }: FollowEvents): AsyncGenerator<ServerEventAnswer> {
    let seen = after ?? -1
    while (!signal.aborted) {
      if (!this.#has(seen)) {
        seen = this.#lastSeq
        yield { seq: seen, type: 'gap', at: this.#iso(this.#nowMs()), data: {} }
      }
      const fresh = this.#after(seen)
      const newest = newestChanges(fresh)
      for (const event of fresh) {
        // It lagged behind while it waited for its reader.
        if (!this.#has(seen)) break
        seen = event.seq
        if (event.type === 'sandbox.changed' && newest.get(event.sandboxId) !== event.seq) continue
        if (!caller.isAdmin && event.owner !== undefined && event.owner !== caller.keyId) continue
        if (sandboxId !== undefined && event.sandboxId !== sandboxId) continue
        const data = event.data()
        if (data === undefined) continue
        const { seq, type, atMs } = event
        yield { seq, type, at: this.#iso(atMs), sandboxId: event.sandboxId, data }
        if (signal.aborted) return
      }
      if (seen === this.#lastSeq) await this.#next(signal)
    }
  }

  /** Whether every event after `seq` is still here. */
  #has(seq: number): boolean {
    const oldest = this.#events[0]?.seq ?? this.#lastSeq + 1
    return seq >= oldest - 1 && seq <= this.#lastSeq
  }

  #after(seq: number): KeptEvent[] {
    const newer = this.#lastSeq - seq
    return newer <= 0 ? [] : this.#events.slice(-newer)
  }

  #next(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const watch = onAbort(signal, resolve)
      this.#waiters.push(() => {
        watch[Symbol.dispose]()
        resolve()
      })
    })
  }

  #iso(ms: number): string {
    return new Date(ms).toISOString()
  }
}

/** A reader needs only the last change of each sandbox. */
function newestChanges(events: readonly KeptEvent[]): Map<string | undefined, number> {
  const newest = new Map<string | undefined, number>()
  for (const { type, sandboxId, seq } of events) if (type === 'sandbox.changed') newest.set(sandboxId, seq)
  return newest
}
