import { Limiter } from './limiter.ts'

/** Runs one piece of work at a time, in the order of the calls. */
export class Mutex {
  readonly #limiter = new Limiter({ concurrency: 1 })

  get isLocked(): boolean {
    return this.#limiter.running > 0
  }

  run<Value>(work: () => Promise<Value> | Value, signal?: AbortSignal): Promise<Value> {
    return this.#limiter.run(work, { signal })
  }
}
