/** Two creates in a row do not wait for CRIU; each reserved burrow takes about eight megabytes. */
const KEPT = 2
/** After a burst of creates, the reserve is as large as the burst, up to this. */
const KEPT_MAX = 16
/** Creates that follow each other this closely are a burst. */
const BURST_MS = 10_000
/** Without another burst, the reserve shrinks again after this time. */
const BURST_KEPT_MS = 5 * 60_000

interface Entry<Create> {
  readonly create: Create
  readonly atMs: number
  /** Another create came shortly before or after it. */
  readonly isInBurst: boolean
}

/** Says how many burrows to hold ready, and for which creates: for the last two, and for those of the last bursts. */
export class RecentCreates<Create> {
  readonly #nowMs: () => number
  /** Latest first. */
  #entries: readonly Entry<Create>[] = []

  /** `nowMs` is a monotonic clock. */
  constructor(nowMs = () => performance.now()) {
    this.#nowMs = nowMs
  }

  add(create: Create): void {
    const atMs = this.#nowMs()
    const [last, ...earlier] = this.#entries
    const isInBurst = last !== undefined && atMs - last.atMs < BURST_MS
    const before = last === undefined ? [] : [{ ...last, isInBurst: last.isInBurst || isInBurst }, ...earlier]
    this.#entries = [{ create, atMs, isInBurst }, ...before].slice(0, KEPT_MAX)
  }

  /** Replaces creates. Those that become undefined are forgotten. */
  change(next: (create: Create) => Create | undefined): void {
    this.#entries = this.#entries.flatMap((entry) => {
      const create = next(entry.create)
      return create === undefined ? [] : [{ ...entry, create }]
    })
  }

  /** Latest first. */
  wanted(): readonly Create[] {
    const oldestMs = this.#nowMs() - BURST_KEPT_MS
    this.#entries = this.#entries.filter(
      ({ atMs, isInBurst }, index) => index < KEPT || (isInBurst && atMs > oldestMs),
    )
    return this.#entries.map(({ create }) => create)
  }

  /** When `wanted` gets shorter without another create; undefined: never. */
  shrinksInMs(): number | undefined {
    const last = this.#entries.at(-1)
    if (last === undefined || this.#entries.length <= KEPT) return undefined
    return Math.max(0, last.atMs + BURST_KEPT_MS - this.#nowMs())
  }
}
