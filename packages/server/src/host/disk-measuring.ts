import type { DiskUse, Measurement } from '@dormouse/engine'
import type { Log } from '../log.ts'

/** A directory tree whose disk use is measured repeatedly: what a sandbox has written, or a volume. */
export interface MeasuredTree {
  /** Identifies the tree from round to round. */
  readonly key: unknown
  /** Its write rate, as far as that is known without measuring. */
  readonly bytesPerSecond: number
  readonly limits: { readonly bytes: number; readonly files: number }
  readonly begin: () => Measurement | Promise<Measurement>
  readonly found: (use: DiskUse) => unknown
}

/** How long one measurement runs before the next tree gets its time slice. */
const SLICE_MS = 200
/** At least this long between two measurements of one tree, and before the first of one that is not written to. */
const APART_MS = 2_000
/** A tree that does not change rests twice as long after each measurement, up to this. */
const UNCHANGED_REST_MAX_MS = 8_000
/** A tree rests for this many times its measuring time, unless it could pass its limit before that. */
const REST_FACTOR = 20
/** Between two slices of one measurement, this many times the slice. */
const PAUSE_FACTOR = 2
/** A growing tree is measured again after this share of the time in which it would reach its limit. */
const HEADROOM_SHARE = 0.5

interface Entry {
  tree: MeasuredTree
  /** When it may be measured next. */
  dueAt: number
  /** When it may be measured next if it is written to. */
  dueWhenWrittenAt: number
  /** Measurements in a row that found what the one before had found. */
  unchanged: number
  measurement: Measurement | undefined
  usedMs: number
  last: { readonly at: number; readonly use: DiskUse } | undefined
  filesPerSecond: number
  growthPerSecond: number
  isMeasuring: boolean
  /** In a row. */
  failures: number
}

/**
 * Measures trees in time slices, two at a time: the tree that is written to fastest, and the tree that has waited
 * longest. A long measurement pauses at the end of its slice and continues later, so that none delays another by more
 * than a slice.
 */
export class DiskMeasuring implements Disposable {
  readonly #log: Log
  readonly #entries = new Map<unknown, Entry>()
  readonly #lanes = new Set<'fastest' | 'longest'>()
  #isClosed = false

  constructor(log: Log) {
    this.#log = log
  }

  /** Replaces the list of trees and starts measuring those that are due. Returns at once. */
  round(trees: readonly MeasuredTree[]): void {
    if (this.#isClosed) return
    const now = performance.now()
    const keys = new Set(trees.map(({ key }) => key))
    for (const [key, entry] of this.#entries) if (!keys.has(key)) this.#drop(key, entry)
    for (const tree of trees) {
      const entry = this.#entries.get(tree.key)
      if (entry === undefined) this.#entries.set(tree.key, newEntry(tree, now))
      else {
        entry.tree = tree
        if (tree.bytesPerSecond > 0) entry.dueAt = Math.min(entry.dueAt, entry.dueWhenWrittenAt)
      }
    }
    for (const lane of ['fastest', 'longest'] as const) void this.#run(lane)
  }

  /** Growth between the last two measurements of a tree; 0 before the second. */
  growthOf(key: unknown): { readonly bytesPerSecond: number; readonly filesPerSecond: number } {
    const { growthPerSecond = 0, filesPerSecond = 0 } = this.#entries.get(key) ?? {}
    return { bytesPerSecond: growthPerSecond, filesPerSecond }
  }

  /** Makes every tree due: something on the disk grows, and nothing says what. */
  measureAllNow(): void {
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
        await this.#measureSlice(entry)
    } finally {
      this.#lanes.delete(lane)
    }
  }

  #next(lane: 'fastest' | 'longest'): Entry | undefined {
    const now = performance.now()
    const due = [...this.#entries.values()].filter(({ dueAt, isMeasuring }) => !isMeasuring && dueAt <= now)
    const isBefore = (a: Entry, b: Entry) =>
      lane === 'fastest' && a.tree.bytesPerSecond !== b.tree.bytesPerSecond
        ? a.tree.bytesPerSecond > b.tree.bytesPerSecond
        : a.dueAt < b.dueAt
    return due.reduce<Entry | undefined>(
      (best, entry) => (best === undefined || isBefore(entry, best) ? entry : best),
      undefined,
    )
  }

  async #measureSlice(entry: Entry): Promise<void> {
    const began = performance.now()
    const { tree } = entry
    entry.isMeasuring = true
    try {
      entry.measurement ??= await tree.begin()
      const use = await entry.measurement.advance(SLICE_MS)
      const now = performance.now()
      entry.usedMs += now - began
      if (use === undefined) {
        entry.dueAt = now + (now - began) * PAUSE_FACTOR
        entry.dueWhenWrittenAt = entry.dueAt
        // The tree was dropped from the list meanwhile.
        if (this.#entries.get(tree.key) !== entry) this.#end(entry)
        return
      }
      this.#end(entry)
      this.#note(entry, use, now)
      void Promise.resolve(tree.found(use)).catch((err: unknown) =>
        this.#log.warn({ tree: tree.key, err }, 'the result of a disk measurement could not be handled'),
      )
    } catch (err) {
      this.#end(entry)
      entry.dueAt = performance.now() + APART_MS
      entry.dueWhenWrittenAt = entry.dueAt
      entry.failures += 1
      // A tree that has gone meanwhile fails once and is not in the next list.
      if (entry.failures > 1 && this.#entries.get(tree.key) === entry)
        this.#log.warn({ tree: tree.key, err }, 'the disk use of a tree could not be measured')
    } finally {
      entry.isMeasuring = false
    }
  }

  #end(entry: Entry): void {
    entry.measurement?.[Symbol.dispose]()
    entry.measurement = undefined
  }

  #note(entry: Entry, use: DiskUse, now: number): void {
    const { last, usedMs, tree } = entry
    const seconds = last === undefined ? 0 : (now - last.at) / 1_000
    entry.growthPerSecond = seconds > 0 && last ? Math.max(0, (use.bytes - last.use.bytes) / seconds) : 0
    entry.filesPerSecond = seconds > 0 && last ? Math.max(0, (use.files - last.use.files) / seconds) : 0
    const isUnchanged = last?.use.bytes === use.bytes && last.use.files === use.files
    entry.unchanged = isUnchanged ? entry.unchanged + 1 : 0
    entry.last = { at: now, use }
    entry.usedMs = 0
    entry.failures = 0
    const { bytes, files } = tree.limits
    const bytesPerSecond = Math.max(entry.growthPerSecond, tree.bytesPerSecond)
    const untilLimit = Math.min(
      msUntil(bytes - use.bytes, bytesPerSecond),
      msUntil(files - use.files, entry.filesPerSecond),
    )
    const rest = Math.min(usedMs * REST_FACTOR, untilLimit * HEADROOM_SHARE)
    entry.dueWhenWrittenAt = now + Math.max(APART_MS, usedMs * PAUSE_FACTOR, rest)
    const unchangedRest = Math.min(APART_MS * 2 ** entry.unchanged, UNCHANGED_REST_MAX_MS)
    entry.dueAt = Math.max(entry.dueWhenWrittenAt, now + unchangedRest)
  }
}

function msUntil(headroom: number, perSecond: number): number {
  return perSecond <= 0 ? Number.POSITIVE_INFINITY : (Math.max(0, headroom) / perSecond) * 1_000
}

/** Most sandboxes that wake run one short call and sleep again: they need not be measured at all. */
function newEntry(tree: MeasuredTree, now: number): Entry {
  const dueAt = tree.bytesPerSecond > 0 ? now : now + APART_MS
  return {
    ...{ tree, dueAt, dueWhenWrittenAt: now, unchanged: 0 },
    ...{ measurement: undefined, usedMs: 0, last: undefined },
    ...{ filesPerSecond: 0, growthPerSecond: 0, isMeasuring: false, failures: 0 },
  }
}
