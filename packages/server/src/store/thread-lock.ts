/** Words of the shared memory: which thread holds the lock, and whether the main thread waits for it. */
const HOLDER = 0
const MAIN_WAITS = 1
const WORDS = 2

/** Longest wait for a notification: a lost one costs no more than this. */
const LOOK_MS = 20
/** No transaction takes this long: the other thread must have died in one. SQLite's own lock decides then. */
const PATIENCE_MS = 5_000

/**
 * A lock between the two threads that write to one database. SQLite's own lock makes a thread sleep for milliseconds
 * and try again; this one wakes it as soon as the database is free. The main thread comes first: it waits for at most
 * one transaction.
 */
export class ThreadLock {
  readonly #words: Int32Array
  readonly #isMain: boolean

  constructor(shared: SharedArrayBuffer, thread: 'main' | 'other') {
    this.#words = new Int32Array(shared)
    this.#isMain = thread === 'main'
  }

  static share(): SharedArrayBuffer {
    return new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT)
  }

  enter(): void {
    if (this.#isMain) this.#enterFirst()
    else this.#enterBehind()
  }

  leave(): void {
    Atomics.store(this.#words, HOLDER, 0)
    Atomics.notify(this.#words, HOLDER)
  }

  #enterFirst(): void {
    if (this.#take()) return
    Atomics.store(this.#words, MAIN_WAITS, 1)
    const deadline = performance.now() + PATIENCE_MS
    do Atomics.wait(this.#words, HOLDER, 1, LOOK_MS)
    while (!this.#take() && performance.now() < deadline)
    Atomics.store(this.#words, MAIN_WAITS, 0)
    Atomics.notify(this.#words, MAIN_WAITS)
  }

  #enterBehind(): void {
    const deadline = performance.now() + PATIENCE_MS
    while (performance.now() < deadline) {
      if (Atomics.load(this.#words, MAIN_WAITS) === 1) Atomics.wait(this.#words, MAIN_WAITS, 1, LOOK_MS)
      else if (this.#take()) return
      else Atomics.wait(this.#words, HOLDER, 1, LOOK_MS)
    }
  }

  #take(): boolean {
    return Atomics.compareExchange(this.#words, HOLDER, 0, 1) === 0
  }
}
