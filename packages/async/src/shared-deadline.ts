/** Two clocks: the monotonic one stands still while the machine is suspended, the other one may be set. */
export interface DeadlineClock {
  readonly monotonicMs: () => number
  readonly wallMs: () => number
}

export const hostDeadlineClock: DeadlineClock = {
  // The same in every thread, unlike `performance.now()`.
  monotonicMs: () => Number(process.hrtime.bigint()) / 1e6,
  wallMs: () => Date.now(),
}

/**
 * Until when something may be done. In shared memory, for threads that look at it before each piece of work: a process
 * that was stopped for a while then does nothing too late when it continues.
 */
export class SharedDeadline {
  readonly memory: SharedArrayBuffer
  readonly #cells: Float64Array
  readonly #clock: DeadlineClock

  constructor(memory = newMemory(), clock = hostDeadlineClock) {
    this.memory = memory
    this.#cells = new Float64Array(memory)
    this.#clock = clock
  }

  /** It has passed when either clock says so: a wall clock that was set forward only costs a pause. */
  get hasPassed(): boolean {
    const [monotonicMs = 0, wallMs = 0] = this.#cells
    return this.#clock.monotonicMs() >= monotonicMs || this.#clock.wallMs() >= wallMs
  }

  /** The deadline is `ms` after the moment that `from` says. */
  set(from: { monotonicMs: number; wallMs: number }, ms: number): void {
    this.#cells[0] = from.monotonicMs + ms
    this.#cells[1] = from.wallMs + ms
  }

  end(): void {
    this.#cells.fill(0)
  }
}

function newMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(2 * Float64Array.BYTES_PER_ELEMENT)
}
