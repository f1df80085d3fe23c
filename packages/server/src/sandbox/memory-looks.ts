import type { Burrow } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'
import type { MemoryView } from './service.ts'

/** A look is kept so many times as long as all of them together take: looking takes a twentieth of one CPU at most, whoever asks how often. */
const REST_FACTOR = 20

interface Look {
  readonly view: Promise<MemoryView | undefined>
  /** By the monotonic clock; undefined while it is under way. */
  endedAt: number | undefined
  tookMs: number
}

/** Looks at the memory of burrows, one after the other, and remembers what it saw: the kernel has to look at every page. */
export class MemoryLooks {
  readonly #clock: Pick<ServerClock, 'wallMs' | 'monotonicMs'>
  readonly #looks = new Map<Burrow, Look>()
  #last: Promise<unknown> = Promise.resolve()

  constructor(clock: Pick<ServerClock, 'wallMs' | 'monotonicMs'>) {
    this.#clock = clock
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
    const clock = this.#clock
    const began = clock.monotonicMs()
    // One that ended meanwhile has none.
    const memory = await burrow.memory().catch(() => undefined)
    const look = this.#looks.get(burrow)
    if (look !== undefined)
      Object.assign(look, { endedAt: clock.monotonicMs(), tookMs: clock.monotonicMs() - began })
    return memory === undefined ? undefined : { ...memory, at: new Date(clock.wallMs()).toISOString() }
  }

  #isFresh({ endedAt }: Look): boolean {
    if (endedAt === undefined) return true
    const allMs = [...this.#looks.values()].reduce((sum, { tookMs }) => sum + tookMs, 0)
    return this.#clock.monotonicMs() < endedAt + REST_FACTOR * allMs
  }
}
