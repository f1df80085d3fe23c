import type { SandboxId } from '@dormouse/contracts'
import type { Egress, OpenEnd, ParkedEnd } from '@dormouse/egress'
import type { Burrow } from '@dormouse/engine'
import type { IncomingConnections } from './incoming-connections.ts'

type EgressEnds = Pick<Egress, 'park' | 'unpark' | 'resume' | 'endParked' | 'listOpen'>

/** This process's ends of the connections of sandboxes: those of the gate, which egress has, and those to ports. */
export class ConnectionEnds {
  readonly #egress: EgressEnds
  readonly #incoming: IncomingConnections

  constructor(egress: EgressEnds, incoming: IncomingConnections) {
    this.#egress = egress
    this.#incoming = incoming
  }

  async park(id: SandboxId): Promise<readonly ParkedEnd[]> {
    const incoming = this.#incoming.park(id).map(negated)
    return [...(await this.#egress.park(id)), ...incoming]
  }

  async unpark(id: SandboxId): Promise<void> {
    this.#incoming.unpark(id)
    await this.#egress.unpark(id)
  }

  async resume(id: SandboxId, burrow: Burrow, ends: readonly OpenEnd[]): Promise<void> {
    this.#incoming.resume(id, burrow, ends.filter((end) => end.id < 0).map(negated))
    await this.#egress.resume(
      id,
      ends.filter((end) => end.id > 0),
    )
  }

  /** What the connections connect to that are open and not parked. */
  async listOpen(id: SandboxId): Promise<readonly string[]> {
    return [...(await this.#egress.listOpen(id)), ...this.#incoming.listOpen(id)]
  }

  async endParked(id: SandboxId): Promise<void> {
    this.#incoming.endParked(id)
    await this.#egress.endParked(id)
  }
}

/** Both sides count their ends from 1. */
function negated<End extends { readonly id: number }>(end: End): End {
  return { ...end, id: -end.id }
}
