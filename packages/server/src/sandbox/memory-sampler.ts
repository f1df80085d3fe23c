import { Mutex } from '@dormouse/async'
import type { Burrow, BurrowMemory } from '@dormouse/engine'
import type { ServerClock } from '../clock/server-clock.ts'

/** Caches results for 20 × the measuring time of all burrows, so measuring uses at most 5 % of a CPU. */
const CACHE_FACTOR = 20

type MeasuredMemory = (BurrowMemory & { readonly at: string }) | undefined

interface Sample {
  readonly memory: Promise<MeasuredMemory>
  /** By the monotonic clock; undefined while it is under way. */
  endedAt: number | undefined
  tookMs: number
}

/** Measures the memory of burrows, one at a time, and caches the results: the kernel has to look at every page. */
export class MemorySampler {
  readonly #clock: Pick<ServerClock, 'wallMs' | 'monotonicMs'>
  readonly #samples = new Map<Burrow, Sample>()
  readonly #mutex = new Mutex()

  constructor(clock: Pick<ServerClock, 'wallMs' | 'monotonicMs'>) {
    this.#clock = clock
  }

  measure(burrow: Burrow): Promise<MeasuredMemory> {
    const known = this.#samples.get(burrow)
    if (known !== undefined && this.#isFresh(known)) return known.memory
    if (known === undefined) void burrow.ended.then(() => this.#samples.delete(burrow))
    const memory = this.#mutex.run(() => this.#measure(burrow))
    this.#samples.set(burrow, { memory, endedAt: undefined, tookMs: known?.tookMs ?? 0 })
    return memory
  }

  async #measure(burrow: Burrow): Promise<MeasuredMemory> {
    const clock = this.#clock
    const began = clock.monotonicMs()
    // A burrow that ended meanwhile has no memory.
    const memory = await burrow.memory().catch(() => undefined)
    const sample = this.#samples.get(burrow)
    if (sample !== undefined)
      Object.assign(sample, { endedAt: clock.monotonicMs(), tookMs: clock.monotonicMs() - began })
    return memory === undefined ? undefined : { ...memory, at: new Date(clock.wallMs()).toISOString() }
  }

  #isFresh({ endedAt }: Sample): boolean {
    if (endedAt === undefined) return true
    const allMs = [...this.#samples.values()].reduce((sum, { tookMs }) => sum + tookMs, 0)
    return this.#clock.monotonicMs() < endedAt + CACHE_FACTOR * allMs
  }
}
