import type { RunEvent } from '@dormouse/contracts'
import { type Entry, truncation } from './bound-event.ts'
import { EVENT_OVERHEAD_BYTES, PAGE_BYTES } from './limits.ts'

/** The newest events of a run, up to a bound. One `truncated` stands for the events that were dropped. */
export class RunTail {
  /** `seq` of the event before the first one added. */
  readonly startSeq: number
  readonly #maxBytes: number
  #entries: Entry[] = []
  /** Entries before this index are dropped. They are removed in batches, because shifting a long array is slow. */
  #first = 0
  #bytes = 0
  #droppedSeq: number
  #droppedBytes = 0

  constructor(startSeq: number, maxBytes: number) {
    this.startSeq = startSeq
    this.#droppedSeq = startSeq
    this.#maxBytes = maxBytes
  }

  /** `seq` of the last event that was dropped or never added. */
  get droppedSeq(): number {
    return this.#droppedSeq
  }

  push(entry: Entry): void {
    this.#entries.push(entry)
    this.#bytes += entry.bytes
    // The newest event stays even if it alone exceeds the bound: it may be the result.
    while (this.#mustDrop()) {
      const { event, bytes } = this.#entries[this.#first++] as Entry
      this.#bytes -= bytes
      this.#droppedSeq = event.seq
      this.#droppedBytes += event.type === 'truncated' ? event.bytes : bytes - EVENT_OVERHEAD_BYTES
    }
    if (this.#first <= this.#entries.length / 2) return
    this.#entries = this.#entries.slice(this.#first)
    this.#first = 0
  }

  /** All kept events, after one `truncated` for the dropped ones. */
  all(): RunEvent[] {
    const kept = this.#entries.slice(this.#first).map(({ event }) => event)
    return this.#droppedSeq === this.startSeq ? kept : [this.#mark(), ...kept]
  }

  /** One page of events after `seq`. Pre: `seq` is not before `startSeq`. */
  after(seq: number): RunEvent[] {
    const isBehind = seq < this.#droppedSeq
    const events: RunEvent[] = isBehind ? [this.#mark()] : []
    let bytes = 0
    for (let at = isBehind ? this.#first : this.#indexAfter(seq); at < this.#entries.length; at += 1) {
      const entry = this.#entries[at] as Entry
      events.push(entry.event)
      bytes += entry.bytes
      if (bytes >= PAGE_BYTES) break
    }
    return events
  }

  /** Searches from the end, where readers that keep up are. */
  #indexAfter(seq: number): number {
    let at = this.#entries.length
    while (at > this.#first && (this.#entries[at - 1] as Entry).event.seq > seq) at -= 1
    return at
  }

  #mark(): RunEvent {
    const events = this.#droppedSeq - this.startSeq
    return truncation({ seq: this.#droppedSeq, events, bytes: this.#droppedBytes })
  }

  #mustDrop(): boolean {
    const left = this.#entries.length - this.#first
    if (this.#bytes > this.#maxBytes) return left > 1
    // One `truncated` is enough.
    const isMark = this.#entries[this.#first]?.event.type === 'truncated'
    return isMark && this.#droppedSeq > this.startSeq
  }
}
