import type { RunEvent } from '@dormouse/contracts'
import { type Entry, truncation } from './bound-event.ts'
import { EVENT_OVERHEAD_BYTES, PAGE_BYTES } from './limits.ts'

/** The newest events of a run, as many as fit into a bound. Those before them are gone: one `truncated` stands for them. */
export class RunTail {
  /** The last event before all that was ever in here. */
  readonly startSeq: number
  readonly #maxBytes: number
  #entries: Entry[] = []
  /** Entries before this one are dropped, and are cut off now and then: shifting a long array is slow. */
  #first = 0
  #bytes = 0
  #droppedSeq: number
  #droppedBytes = 0

  constructor(startSeq: number, maxBytes: number) {
    this.startSeq = startSeq
    this.#droppedSeq = startSeq
    this.#maxBytes = maxBytes
  }

  /** The last event that is not in here, or not any more. */
  get droppedSeq(): number {
    return this.#droppedSeq
  }

  push(entry: Entry): void {
    this.#entries.push(entry)
    this.#bytes += entry.bytes
    // The newest stays even when it alone is over the bound: it may be the result.
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

  /** Everything that is left, with a mark for what is not. */
  all(): RunEvent[] {
    const kept = this.#entries.slice(this.#first).map(({ event }) => event)
    return this.#droppedSeq === this.startSeq ? kept : [this.#mark(), ...kept]
  }

  /** What comes behind `seq`, as much as a reader can handle at once. Pre: it is not before the start. */
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

  /** Readers who keep up are close to the end. */
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
    // One mark for all that is missing.
    const isMark = this.#entries[this.#first]?.event.type === 'truncated'
    return isMark && this.#droppedSeq > this.startSeq
  }
}
