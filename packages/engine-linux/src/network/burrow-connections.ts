import type { SandboxId } from '@dormouse/contracts'
import type { Gate, GateKeeper, OpenEnd, ParkedEnd } from '@dormouse/engine'
import type { FailureLog } from '../host/failure-log.ts'
import type { FirstProcess } from '../process/first-process.ts'
import type { BurrowEnds } from './burrow-ends.ts'
import { BurrowGate } from './burrow-gate.ts'
import { holdConnections, releaseConnections } from './open-gate.ts'

export interface BurrowConnectionsParts {
  readonly first: FirstProcess
  /** Opened ahead of need. */
  readonly gate?: Gate | undefined
  /** Of the connections that continue in this burrow. */
  readonly ends?: BurrowEnds | undefined
}

/** The gate of one burrow, and the connections through it while a snapshot is taken. */
export class BurrowConnections {
  readonly #first: FirstProcess
  readonly #gate: BurrowGate
  readonly #ends: BurrowEnds | undefined
  readonly #report: (error: unknown, message: string) => void

  constructor(
    { first, gate, ends }: BurrowConnectionsParts,
    failures: FailureLog,
    fields: { readonly sandboxId: SandboxId; readonly burrowId: string },
  ) {
    this.#first = first
    this.#gate = new BurrowGate(first, gate)
    this.#ends = ends
    this.#report = (error, message) => failures.report('network', error, fields, message)
  }

  /** Whether the server has opened its gate. */
  get hasNetwork(): boolean {
    return this.#gate.wasRequested
  }

  openGate(keeper?: GateKeeper): Promise<Gate> {
    return this.#gate.open(keeper)
  }

  takeEnds(): readonly OpenEnd[] {
    return this.#ends?.take() ?? []
  }

  /** Never throws: a snapshot without this may be refused by CRIU, which then says why. */
  async hold(): Promise<void> {
    if (!this.#gate.wasEverOpen) return
    await holdConnections(this.#first).catch((error: unknown) =>
      this.#report(error, 'connections of a burrow were not held'),
    )
  }

  /** Never throws: a snapshot without these connections is better than none. */
  park(): Promise<readonly ParkedEnd[]> {
    return this.#gate.park().catch((error: unknown) => {
      this.#report(error, 'connections of a burrow were not kept')
      return []
    })
  }

  /** After a snapshot that failed. May be called again. */
  async release(): Promise<void> {
    if (!this.#gate.wasEverOpen) return
    await releaseConnections(this.#first)
    await this.#gate.unpark()
  }

  /** Closes what the server has not asked for. */
  discard(): void {
    this.#gate.closePrepared()
    this.#ends?.discard()
  }
}
