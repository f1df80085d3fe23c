import { DormouseError } from '@dormouse/contracts'
import type { Gate } from '@dormouse/engine'
import type { FirstProcess } from '../burrow/first-process.ts'
import { closeUnused, openGate } from './open-gate.ts'

/** Who wants the gate that was opened ahead of need asks at once. Until then connections wait, and must not do so for long. */
const UNASKED_MS = 1_000

/** The gate of one burrow. */
export class GateKeeper {
  readonly #first: FirstProcess
  #gate: Promise<Gate> | undefined
  #prepared: Gate | undefined
  #wasAsked = false
  #had: boolean

  /** `prepared` was opened ahead of need, and is closed if nobody asks for it. */
  constructor(first: FirstProcess, prepared?: Gate) {
    this.#first = first
    this.#prepared = prepared
    this.#had = prepared !== undefined
    if (prepared !== undefined) setTimeout(() => this.closePrepared(), UNASKED_MS).unref()
  }

  /** Whether there ever was one: connections outlive it. */
  get had(): boolean {
    return this.#had
  }

  get wasAsked(): boolean {
    return this.#wasAsked
  }

  async open(): Promise<Gate> {
    if (this.#gate !== undefined)
      throw new DormouseError('conflict', 'The gate of this sandbox is open already.')
    const opening = this.#take() ?? openGate(this.#first)
    this.#gate = opening
    this.#had = true
    this.#wasAsked = true
    const forget = () => {
      if (this.#gate === opening) this.#gate = undefined
    }
    const gate = await opening.catch((error: unknown) => {
      forget()
      throw error
    })
    return {
      ...gate,
      close: () => {
        gate.close()
        forget()
      },
    }
  }

  closePrepared(): void {
    if (this.#prepared !== undefined) closeUnused(this.#prepared)
    this.#prepared = undefined
  }

  #take(): Promise<Gate> | undefined {
    const prepared = this.#prepared
    this.#prepared = undefined
    return prepared && Promise.resolve(prepared)
  }
}
