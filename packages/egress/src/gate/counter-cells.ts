/** Counted from the first attach; attaching and detaching reset nothing. */
export interface EgressCounters {
  readonly bytesOut: number
  readonly bytesIn: number
  /** Allowed by the policy, whether or not the destination answered. */
  readonly connections: number
  readonly denied: number
  /** Look-ups of names. */
  readonly names: number
}

const CELLS: readonly (keyof EgressCounters)[] = ['bytesOut', 'bytesIn', 'connections', 'denied', 'names']

/** In shared memory: reading takes no message, and the counts survive the death of a worker. */
export class CounterCells {
  readonly memory: SharedArrayBuffer
  readonly #cells: Float64Array

  constructor(memory = new SharedArrayBuffer(CELLS.length * Float64Array.BYTES_PER_ELEMENT)) {
    this.memory = memory
    this.#cells = new Float64Array(memory)
  }

  /** Only one thread may call this: the update is not atomic. */
  add(counter: keyof EgressCounters, count: number): void {
    const at = CELLS.indexOf(counter)
    this.#cells[at] = (this.#cells[at] ?? 0) + count
  }

  read(): EgressCounters {
    const [bytesOut = 0, bytesIn = 0, connections = 0, denied = 0, names = 0] = this.#cells
    return { bytesOut, bytesIn, connections, denied, names }
  }
}
