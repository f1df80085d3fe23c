import type { Burrow } from '@dormouse/engine'
import type { MemoryView } from './service.ts'

/** A look is kept so many times as long as all of them together take: looking takes a twentieth of one CPU at most, whoever asks how often. */
const REST_FACTOR = 20

interface Look {
  readonly view: Promise<MemoryView | undefined>
  /** Of `now`; undefined while it is under way. */
  endedAt: number | undefined
  tookMs: number
}

export interface MemoryLooksOptions {
  readonly now: () => number
  /** Of the engine's looking: a clock that only goes on. */
  readonly clock: () => number
}

/** Looks at the memory of burrows, one after the other, and remembers what it saw: the kernel has to look at every page. */
export class MemoryLooks {
  readonly #options: MemoryLooksOptions
  readonly #looks = new Map<Burrow, Look>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: MemoryLooksOptions) {
    this.#options = options
  }

  of(burrow: Burrow): Promise<MemoryView | undefined> {
    const known = this.#looks.get(burrow)
    if (known !== undefined && this.#isFresh(known)) return known.view
    if (known === undefined) void burrow.ended.then(() => this.#looks.delete(burrow))
    const view = this.#last.then(() => this.#look(burrow))
    this.#last = view
    this.#looks.set(burrow, { view, endedAt: undefined, tookMs: known?.tookMs ?? 0 })
    return view
  }

  async #look(burrow: Burrow): Promise<MemoryView | undefined> {
    const { now, clock } = this.#options
    const began = clock()
    // One that ended meanwhile has none.
    const memory = await burrow.memory().catch(() => undefined)
    const look = this.#looks.get(burrow)
    if (look !== undefined) Object.assign(look, { endedAt: clock(), tookMs: clock() - began })
    return memory === undefined ? undefined : { ...memory, at: new Date(now()).toISOString() }
  }

  #isFresh({ endedAt }: Look): boolean {
    if (endedAt === undefined) return true
    const allMs = [...this.#looks.values()].reduce((sum, { tookMs }) => sum + tookMs, 0)
    return this.#options.clock() < endedAt + REST_FACTOR * allMs
  }
}
