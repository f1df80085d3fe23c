import type { DiskUse, Measurement } from '@dormouse/engine'
import type { Log } from '../log.ts'

/** Something whose use of the disk is measured again and again. */
export interface Subject {
  /** The same from round to round. */
  readonly key: unknown
  /** What it has written lately, as far as that is known without measuring. */
  readonly bytesPerSecond: number
  readonly limits: { readonly bytes: number; readonly files: number }
  readonly begin: () => Measurement | Promise<Measurement>
  readonly found: (use: DiskUse) => unknown
}

/** How long one measurement goes on before it is another's turn. */
const TURN_MS = 200
/** How long one that was just measured is left alone, at least. */
const APART_MS = 2_000
/** After a measurement there is a rest so many times as long, unless a limit could be passed before. */
const REST_FACTOR = 20
/** In the middle of one, so many times as long as the turn. */
const PAUSE_FACTOR = 2
/** One that has written this much since it was last measured could pass its limit before its next turn: it is measured at half that time. */
const HEADROOM_SHARE = 0.5

interface Entry {
  subject: Subject
  /** Since when it can be measured. */
  dueAt: number
  measurement: Measurement | undefined
  usedMs: number
  last: { readonly at: number; readonly use: DiskUse } | undefined
  filesPerSecond: number
  growthPerSecond: number
  isInHand: boolean
  /** In a row. */
  failures: number
}

/**
 * Measures subjects in turns, two at a time: one of those that write most, and the one that has waited longest. A measurement that takes long is
 * stopped at the end of its turn and goes on in its next, so none delays another by more than a turn.
 */
export class MeasuringTurns implements Disposable {
  readonly #log: Log
  readonly #entries = new Map<unknown, Entry>()
  readonly #lanes = new Set<'fastest' | 'longest'>()
  #isClosed = false

  constructor(log: Log) {
    this.#log = log
  }

  /** What there is to measure now. Those that are due get their turns; returns at once. */
  round(subjects: readonly Subject[]): void {
    if (this.#isClosed) return
    const now = performance.now()
    const keys = new Set(subjects.map(({ key }) => key))
    for (const [key, entry] of this.#entries) if (!keys.has(key)) this.#drop(key, entry)
    for (const subject of subjects) {
      const entry = this.#entries.get(subject.key)
      if (entry !== undefined) entry.subject = subject
      else this.#entries.set(subject.key, newEntry(subject, now))
    }
    for (const lane of ['fastest', 'longest'] as const) void this.#run(lane)
  }

  /** How fast it has grown between its last two measurements; 0 before the second. */
  growthOf(key: unknown): { readonly bytesPerSecond: number; readonly filesPerSecond: number } {
    const { growthPerSecond = 0, filesPerSecond = 0 } = this.#entries.get(key) ?? {}
    return { bytesPerSecond: growthPerSecond, filesPerSecond }
  }

  /** All of them are due: something has grown, and nothing says what. */
  hurry(): void {
    const now = performance.now()
    for (const entry of this.#entries.values()) entry.dueAt = Math.min(entry.dueAt, now)
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    for (const [key, entry] of this.#entries) this.#drop(key, entry)
  }

  #drop(key: unknown, entry: Entry): void {
    this.#entries.delete(key)
    entry.measurement?.[Symbol.dispose]()
  }

  async #run(lane: 'fastest' | 'longest'): Promise<void> {
    if (this.#lanes.has(lane)) return
    this.#lanes.add(lane)
    try {
      for (let entry = this.#next(lane); entry !== undefined; entry = this.#next(lane))
        await this.#turn(entry)
    } finally {
      this.#lanes.delete(lane)
    }
  }

  #next(lane: 'fastest' | 'longest'): Entry | undefined {
    const now = performance.now()
    const due = [...this.#entries.values()].filter(({ dueAt, isInHand }) => !isInHand && dueAt <= now)
    const isBefore = (a: Entry, b: Entry) =>
      lane === 'fastest' && a.subject.bytesPerSecond !== b.subject.bytesPerSecond
        ? a.subject.bytesPerSecond > b.subject.bytesPerSecond
        : a.dueAt < b.dueAt
    return due.reduce<Entry | undefined>(
      (best, entry) => (best === undefined || isBefore(entry, best) ? entry : best),
      undefined,
    )
  }

  async #turn(entry: Entry): Promise<void> {
    const began = performance.now()
    const { subject } = entry
    entry.isInHand = true
    try {
      entry.measurement ??= await subject.begin()
      const use = await entry.measurement.advance(TURN_MS)
      const now = performance.now()
      entry.usedMs += now - began
      if (use === undefined) {
        entry.dueAt = now + (now - began) * PAUSE_FACTOR
        // Nobody wants it any more.
        if (this.#entries.get(subject.key) !== entry) this.#end(entry)
        return
      }
      this.#end(entry)
      this.#note(entry, use, now)
      void Promise.resolve(subject.found(use)).catch((err: unknown) =>
        this.#log.warn({ subject: subject.key, err }, 'what was measured could not be acted on'),
      )
    } catch (err) {
      this.#end(entry)
      entry.dueAt = performance.now() + APART_MS
      entry.failures += 1
      // One that has ended meanwhile fails once, and is not among the next subjects.
      if (entry.failures > 1 && this.#entries.get(subject.key) === entry)
        this.#log.warn({ subject: subject.key, err }, 'use of the disk was not measured')
    } finally {
      entry.isInHand = false
    }
  }

  #end(entry: Entry): void {
    entry.measurement?.[Symbol.dispose]()
    entry.measurement = undefined
  }

  #note(entry: Entry, use: DiskUse, now: number): void {
    const { last, usedMs, subject } = entry
    const seconds = last === undefined ? 0 : (now - last.at) / 1_000
    entry.growthPerSecond = seconds > 0 && last ? Math.max(0, (use.bytes - last.use.bytes) / seconds) : 0
    entry.filesPerSecond = seconds > 0 && last ? Math.max(0, (use.files - last.use.files) / seconds) : 0
    entry.last = { at: now, use }
    entry.usedMs = 0
    entry.failures = 0
    const { bytes, files } = subject.limits
    const bytesPerSecond = Math.max(entry.growthPerSecond, subject.bytesPerSecond)
    const untilLimit = Math.min(
      msUntil(bytes - use.bytes, bytesPerSecond),
      msUntil(files - use.files, entry.filesPerSecond),
    )
    const rest = Math.min(usedMs * REST_FACTOR, untilLimit * HEADROOM_SHARE)
    entry.dueAt = now + Math.max(APART_MS, usedMs * PAUSE_FACTOR, rest)
  }
}

function msUntil(headroom: number, perSecond: number): number {
  return perSecond <= 0 ? Number.POSITIVE_INFINITY : (Math.max(0, headroom) / perSecond) * 1_000
}

function newEntry(subject: Subject, now: number): Entry {
  return {
    ...{ subject, dueAt: now, measurement: undefined, usedMs: 0, last: undefined },
    ...{ filesPerSecond: 0, growthPerSecond: 0, isInHand: false, failures: 0 },
  }
}
