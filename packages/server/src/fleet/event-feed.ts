import { setImmediate as nextTurn } from 'node:timers/promises'
import { onAbort } from '@dormouse/async'
import type { SandboxId } from '@dormouse/contracts'
import type { ServerEventAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { EventRows, StoredEvent } from './event-rows.ts'
import { type EventType, EventWindow, type KeptEvent } from './event-window.ts'

/** `seq` starts at the time of the start in microseconds, so that it grows also over restarts. */
const SEQ_PER_MS = 1000
/** Events are written together after this time, so that a wake does not wait for a write. */
const WRITE_AFTER_MS = 100
/** What is larger is kept without its data. */
const DATA_MAX_CHARACTERS = 64 * 1024

/** How far, and for how long, another host may be ahead. */
const AHEAD_MAX = 100_000
const AHEAD_WAIT_MS = 2_000

export type NewEvent = Omit<KeptEvent, 'type' | 'seq' | 'atMs'> & { readonly type: EventType }

export interface FollowEvents {
  /** Undefined: from now on. */
  readonly after: number | undefined
  readonly caller: Caller
  readonly sandboxId?: SandboxId | undefined
  readonly signal: AbortSignal
}

/** Where the events of all hosts of a cluster go, and come back from in one order. */
export interface EventRelay {
  /** Sends events of this host, in this order. `restart`: events before it may be missing. */
  send(events: readonly RelayedEvent[]): Promise<void>
}

/** An event as it travels between hosts. */
export interface RelayedEvent extends Omit<StoredEvent, 'seq' | 'type'> {
  readonly type: StoredEvent['type'] | 'restart'
}

/** Where events are kept over restarts. */
export interface EventHistory {
  readonly rows: EventRows
  /** Called in the transaction that writes an event. */
  readonly onWrite?: (event: StoredEvent) => void
  readonly onError: (error: unknown) => void
}

/**
 * What happens on the whole server, for readers, webhooks and the disk. Publishing is cheap: it happens during wakes.
 */
export class EventFeed implements Disposable {
  readonly #nowMs: () => number
  readonly #history: EventHistory | undefined
  #unwritten: KeptEvent[] = []
  #writing: NodeJS.Timeout | undefined
  readonly #window: EventWindow
  #lastSeq: number
  #waiters: (() => void)[] = []
  #relay: EventRelay | undefined
  #outgoing: KeptEvent[] = []
  #sending: Promise<void> | undefined

  constructor(nowMs: () => number, history?: EventHistory) {
    this.#nowMs = nowMs
    this.#history = history
    const newest = history?.rows.newestSeq()
    this.#lastSeq = Math.max(newest ?? 0, Math.floor(nowMs()) * SEQ_PER_MS)
    this.#window = new EventWindow(history?.rows, this.#lastSeq)
    if (newest === undefined) return
    // The last events of the earlier server may be missing: its readers hear that at this place.
    this.#lastSeq += 1
    this.#window.add({
      ...{ type: 'restart', seq: this.#lastSeq, atMs: nowMs() },
      ...{ owner: undefined, data: () => ({}) },
    })
  }

  [Symbol.dispose](): void {
    this.write()
  }

  /** Writes what is not on disk yet. */
  write(): void {
    clearTimeout(this.#writing)
    this.#writing = undefined
    const batch = this.#unwritten.splice(0)
    if (this.#history === undefined || batch.length === 0) return
    const { rows, onWrite, onError } = this.#history
    try {
      rows.append(batch.flatMap(toStored), onWrite)
    } catch (error) {
      // As on a full disk. Readers that are connected have them.
      const last = batch.at(-1)
      if (last !== undefined) this.#window.lose(last)
      onError(error)
    }
  }

  /** From now on events come from `receive`, in the order of the cluster, after `beforeSeq`. */
  join(relay: EventRelay, place: { baseSeq: number; beforeSeq: number; lastSeq: number }): void {
    this.write()
    this.#history?.rows.keepBetween(place)
    this.#relay = relay
    this.#window.startAfter(place.beforeSeq)
    this.#lastSeq = place.beforeSeq
    const restart = { type: 'restart', seq: 0, atMs: this.#nowMs(), owner: undefined } as const
    this.#outgoing.push({ ...restart, data: () => ({}) })
    this.#sending ??= this.#send()
  }

  /** An event of the cluster. `isMine`: this host has published it, keeps it, and sends it to webhooks. */
  receive(seq: number, { sandboxId, data, ...event }: RelayedEvent, isMine: boolean): void {
    if (seq <= this.#lastSeq) return
    this.#lastSeq = seq
    const isWritten = isMine && this.#history?.rows.has(seq) === false
    this.#keep({ ...event, seq, ...(sandboxId && { sandboxId }), data: () => data }, isWritten)
  }

  publish(event: NewEvent): void {
    if (this.#relay !== undefined) {
      this.#outgoing.push({ ...event, seq: 0, atMs: this.#nowMs() })
      this.#sending ??= this.#send()
      return
    }
    this.#lastSeq += 1
    this.#keep({ ...event, seq: this.#lastSeq, atMs: this.#nowMs() }, true)
  }

  #keep(kept: KeptEvent, isWritten: boolean): void {
    this.#window.add(kept)
    if (isWritten && this.#history?.rows.isKept(kept.type) === true) {
      this.#unwritten.push(kept)
      this.#writing ??= setTimeout(() => this.write(), WRITE_AFTER_MS).unref()
    }
    if (this.#window.isFull) {
      this.write()
      this.#window.halve()
    }
    for (const wake of this.#waiters.splice(0)) wake()
  }

  /** After the work of this turn: publishing happens during wakes. */
  async #send(): Promise<void> {
    await nextTurn()
    while (this.#outgoing.length > 0) {
      const batch = this.#outgoing.splice(0)
      const newest = newestChanges(batch)
      const events = batch.flatMap((event) => {
        const isOld = event.type === 'sandbox.changed' && newest.get(event.sandboxId) !== event
        const data = isOld ? undefined : event.data()
        const { type, owner, sandboxId, atMs } = event
        return data === undefined ? [] : [{ type, owner, sandboxId, atMs, data }]
      })
      await this.#relay?.send(events)
    }
    this.#sending = undefined
  }

  /** Ends with `signal`. A reader that begins, or whose place is gone, first gets a `gap`. */
  async *follow({ after, caller, sandboxId, signal }: FollowEvents): AsyncGenerator<ServerEventAnswer> {
    let seen = after ?? Number.POSITIVE_INFINITY
    // Another host may have sent the reader an event that this one has not heard of yet.
    if (this.#relay !== undefined && seen > this.#lastSeq && seen < this.#lastSeq + AHEAD_MAX)
      await this.#reaches(seen, signal)
    while (!signal.aborted) {
      const missing = this.#gapAfter(seen)
      if (missing !== undefined) {
        seen = missing
        yield { seq: seen, type: 'gap', at: this.#iso(this.#nowMs()), data: {} }
      }
      const fresh = this.#window.after(seen)
      const newest = newestChanges(fresh)
      for (const event of fresh) {
        seen = event.seq
        if (event.type === 'restart') {
          yield { seq: seen, type: 'gap', at: this.#iso(event.atMs), data: {} }
          continue
        }
        if (event.type === 'sandbox.changed' && newest.get(event.sandboxId) !== event) continue
        if (!caller.isAdmin && event.owner !== undefined && event.owner !== caller.keyId) continue
        if (sandboxId !== undefined && event.sandboxId !== sandboxId) continue
        const data = event.data()
        if (data === undefined) continue
        const { seq, type, atMs } = event
        yield { seq, type, at: this.#iso(atMs), sandboxId: event.sandboxId, data }
        if (signal.aborted) return
      }
      if (seen === this.#lastSeq) await this.#next(signal)
      // Pages from disk that have nothing for this reader.
      else await nextTurn()
    }
  }

  /** Where a reader that has `seq` gets a `gap` and continues. Undefined: no event after `seq` is missing. */
  #gapAfter(seq: number): number | undefined {
    if (seq > this.#lastSeq) return this.#lastSeq
    const { completeAfterSeq } = this.#window
    return seq < completeAfterSeq ? completeAfterSeq : undefined
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

  async #reaches(seq: number, signal: AbortSignal): Promise<void> {
    const late = AbortSignal.any([signal, AbortSignal.timeout(AHEAD_WAIT_MS)])
    while (seq > this.#lastSeq && !late.aborted) await this.#next(late)
  }

  #iso(ms: number): string {
    return new Date(ms).toISOString()
  }
}

function toStored({ type, data, owner, sandboxId, seq, atMs }: KeptEvent): StoredEvent[] {
  const shown = type === 'restart' ? undefined : data()
  if (type === 'restart' || shown === undefined) return []
  const isLarge = JSON.stringify(shown).length > DATA_MAX_CHARACTERS
  return [{ seq, type, owner, sandboxId, atMs, data: isLarge ? {} : shown }]
}

/** A reader needs only the last change of each sandbox. */
function newestChanges(events: readonly KeptEvent[]): Map<string | undefined, KeptEvent> {
  const changes = events.filter(({ type }) => type === 'sandbox.changed')
  return new Map(changes.map((event) => [event.sandboxId, event]))
}
