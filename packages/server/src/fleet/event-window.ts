import type { SandboxId } from '@dormouse/contracts'
import type { ServerEventAnswer } from '@dormouse/contracts/http'
import type { EventRows, StoredEvent } from './event-rows.ts'

/** Events in memory: a minute of a busy server. About 200 bytes each. */
const EVENTS_KEPT = 4096
/** Events behind those, where none are on disk: as many as `EventRows` keeps. */
const REMEMBERED = 10_000
/** Rows that a reader takes from disk at once: a few milliseconds. */
const PAGE = 256

/** Only the last one matters to a reader. */
const STATES: ReadonlySet<string> = new Set(['sandbox.changed', 'sandbox.usage', 'restart'])

export type EventType = Exclude<ServerEventAnswer['type'], 'gap'>

export interface KeptEvent {
  /** `restart`: what happened just before is not known. */
  readonly type: EventType | 'restart'
  readonly seq: number
  readonly atMs: number
  /** The API key that may see it; admins see all. Undefined: every key may. */
  readonly owner: string | undefined
  readonly sandboxId?: SandboxId
  /** Called when the event is sent. Undefined: there is nothing to send any more. */
  readonly data: () => Record<string, unknown> | undefined
}

/**
 * The events that a reader can still ask for: the newest in memory, and before those the rows on disk. A host of a
 * cluster has only its own on disk: it remembers those of all hosts instead. Of events that say how something is now, the
 * last one of each sandbox stays in memory.
 */
export class EventWindow {
  #newest: KeptEvent[] = []
  /** The last event behind `#newest` of each sandbox and type that is not on disk, and the last `restart`. */
  readonly #states = new Map<string, KeptEvent>()
  #rows: EventRows | undefined
  /** Events behind `#newest` that would be rows. */
  #remembered: KeptEvent[] = []
  /** The last event that is not among `#newest`. */
  #behindSeq: number
  /** See `completeAfterSeq`. That of the rows may be later. */
  #completeAfterSeq: number

  constructor(rows: EventRows | undefined, lastSeq: number) {
    this.#rows = rows
    this.#behindSeq = lastSeq
    this.#completeAfterSeq = rows?.completeAfterSeq ?? lastSeq
  }

  add(event: KeptEvent): void {
    this.#newest.push(event)
  }

  get isFull(): boolean {
    // Halved at once instead of shifted one by one.
    return this.#newest.length > 2 * EVENTS_KEPT
  }

  /** Pre: events that belong on disk were written, or `lose` was called. */
  halve(): void {
    for (const event of this.#newest.splice(0, this.#newest.length - EVENTS_KEPT)) this.#drop(event)
    const forgotten = this.#remembered.splice(0, this.#remembered.length - REMEMBERED).at(-1)
    if (forgotten !== undefined) this.#completeAfterSeq = forgotten.seq
  }

  /** This event and perhaps some before it are not on disk although they belong there. */
  lose({ seq, atMs }: KeptEvent): void {
    this.#setState({ type: 'restart', seq, atMs, owner: undefined, data: () => ({}) })
  }

  /** From now on, only events that are added can be read. */
  startAfter(seq: number): void {
    this.#rows = undefined
    this.#newest = []
    this.#remembered = []
    this.#states.clear()
    this.#behindSeq = seq
    this.#completeAfterSeq = seq
  }

  /** No event after this one is missing. */
  get completeAfterSeq(): number {
    return Math.max(this.#completeAfterSeq, this.#rows?.completeAfterSeq ?? 0)
  }

  /** Events after `seq`, oldest first: some of them if they come from disk. None: there are none. */
  after(seq: number): readonly KeptEvent[] {
    if (seq < this.#behindSeq) {
      const behind = this.#behind(seq)
      if (behind.length > 0) return behind
    }
    return this.#newest.slice(this.#newest.findLastIndex((event) => event.seq <= seq) + 1)
  }

  #behind(seq: number): KeptEvent[] {
    const rows = this.#page(seq)
    const untilSeq = rows.length === PAGE ? (rows.at(-1)?.seq ?? seq) : this.#behindSeq
    const states = [...this.#states.values()].filter((state) => state.seq > seq && state.seq <= untilSeq)
    return [...rows, ...states].sort((a, b) => a.seq - b.seq)
  }

  #page(seq: number): KeptEvent[] {
    if (this.#rows !== undefined)
      return this.#rows.between(seq, { untilSeq: this.#behindSeq, limit: PAGE }).map(fromRow)
    const first = this.#remembered.findLastIndex((event) => event.seq <= seq) + 1
    return this.#remembered.slice(first, first + PAGE)
  }

  #drop(event: KeptEvent): void {
    const { type, seq } = event
    this.#behindSeq = seq
    if (STATES.has(type)) this.#setState(event)
    else if (this.#rows === undefined) this.#remembered.push(event)
    else if (!this.#rows.isKept(type)) this.#completeAfterSeq = seq
    if (type === 'sandbox.deleted')
      for (const state of STATES) this.#states.delete(`${state} ${event.sandboxId}`)
  }

  #setState(event: KeptEvent): void {
    const key = `${event.type} ${event.sandboxId}`
    if ((this.#states.get(key)?.seq ?? 0) < event.seq) this.#states.set(key, event)
  }
}

function fromRow({ data, sandboxId, ...event }: StoredEvent): KeptEvent {
  return { ...event, ...(sandboxId && { sandboxId }), data: () => data }
}
