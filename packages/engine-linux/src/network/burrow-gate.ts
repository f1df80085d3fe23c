import { DormouseError } from '@dormouse/contracts'
import type { Gate, GateKeeper, ParkedEnd } from '@dormouse/engine'
import type { FirstProcess } from '../process/first-process.ts'
import { closeUnused, openGate } from './open-gate.ts'

/**
 * The server asks at once for a gate that was opened ahead of need. Until then connections wait, so the gate is closed
 * soon.
 */
const UNREQUESTED_MS = 1_000

/** The gate of one burrow: at most one is open at a time. */
export class BurrowGate {
  readonly #first: FirstProcess
  #gate: Promise<Gate> | undefined
  #prepared: Gate | undefined
  #wasRequested = false
  #wasEverOpen: boolean
  #keeper: GateKeeper | undefined

  /** `prepared` was opened ahead of need, and is closed if `open` is not called soon. */
  constructor(first: FirstProcess, prepared?: Gate) {
    this.#first = first
    this.#prepared = prepared
    this.#wasEverOpen = prepared !== undefined
    if (prepared !== undefined) setTimeout(() => this.closePrepared(), UNREQUESTED_MS).unref()
  }

  /** Connections outlive the gate that they came through. */
  get wasEverOpen(): boolean {
    return this.#wasEverOpen
  }

  get wasRequested(): boolean {
    return this.#wasRequested
  }

  async open(keeper?: GateKeeper): Promise<Gate> {
    if (this.#gate !== undefined)
      throw new DormouseError('conflict', 'The gate of this sandbox is open already.')
    const opening = this.#takePrepared() ?? openGate(this.#first)
    this.#gate = opening
    this.#wasEverOpen = true
    this.#wasRequested = true
    this.#keeper = keeper
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

  /** Connections outlive the gate that they came through, and so does its keeper. */
  async park(): Promise<readonly ParkedEnd[]> {
    return (await this.#keeper?.park()) ?? []
  }

  async unpark(): Promise<void> {
    await this.#keeper?.unpark()
  }

  closePrepared(): void {
    if (this.#prepared !== undefined) closeUnused(this.#prepared)
    this.#prepared = undefined
  }

  #takePrepared(): Promise<Gate> | undefined {
    const prepared = this.#prepared
    this.#prepared = undefined
    return prepared && Promise.resolve(prepared)
  }
}
