import { closeSync } from 'node:fs'
import type { OpenEnd, ParkedConnections } from '@dormouse/engine'
import type { FirstProcess } from '../process/first-process.ts'
import { withNamespace } from '../process/with-namespace.ts'
import { findGateAddon } from './gate-addon.ts'

/** This process's ends of the connections that continue in a new burrow, until the server takes them. */
export class BurrowEnds {
  #ends: readonly OpenEnd[]
  #records: Buffer

  private constructor(ends: readonly OpenEnd[], records: Buffer) {
    this.#ends = ends
    this.#records = records
  }

  /**
   * Makes the ends in a burrow whose processes do not run yet. They are silent until `start`. A connection whose end
   * cannot be made is left out.
   */
  static async make(first: FirstProcess, kept: ParkedConnections): Promise<BurrowEnds> {
    const found = await findGateAddon()
    if (!('addon' in found)) return new BurrowEnds([], Buffer.alloc(0))
    const records = Buffer.concat(kept.map(({ record }) => record))
    const { ends } = await withNamespace(first, 'net', (netns) => found.addon.makeEnds(netns, records))
    const made = kept.flatMap(({ id, record }, index) => {
      const fd = ends[index] ?? -1
      return fd === -1 ? [] : [{ id, fd, record }]
    })
    return new BurrowEnds(
      made.map(({ id, fd }) => ({ id, fd })),
      Buffer.concat(made.map(({ record }) => record)),
    )
  }

  /** Describes the connections that have an end. */
  get records(): Buffer {
    return this.#records
  }

  /** Pre: the processes are back, and with them the other ends. */
  async start(): Promise<void> {
    const found = await findGateAddon()
    if (!('addon' in found)) return
    const fds = Int32Array.from(this.#ends, ({ fd }) => fd)
    const started = found.addon.startEnds(this.#records, fds)
    this.#records = Buffer.alloc(0)
    // One that could not send everything would leave a gap. The program inside sees that it has ended.
    const failed = this.#ends.filter((_, index) => started[index] !== true)
    this.#ends = this.#ends.filter((_, index) => started[index] === true)
    for (const { fd } of failed) closeSync(fd)
  }

  take(): readonly OpenEnd[] {
    const ends = this.#ends
    this.#ends = []
    return ends
  }

  /** Closes the ends that the server has not taken. */
  discard(): void {
    for (const { fd } of this.take()) closeSync(fd)
  }
}
