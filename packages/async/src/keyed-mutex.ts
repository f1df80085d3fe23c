import { Mutex } from './mutex.ts'

/** One mutex per key, kept only while it is in use. */
export class KeyedMutex {
  readonly #mutexes = new Map<string, Mutex>()

  /**
   * Runs one piece of work at a time for each key, in the order of the calls. Starts it at once when the key is free.
   */
  async run<Value>(key: string, work: () => Promise<Value> | Value): Promise<Value> {
    const mutex = this.#mutexes.get(key) ?? new Mutex()
    this.#mutexes.set(key, mutex)
    try {
      return await mutex.run(work)
    } finally {
      if (!mutex.isLocked) this.#mutexes.delete(key)
    }
  }
}
