import { createRequire } from 'node:module'
import { Socket } from 'node:net'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import {
  type EndAddon,
  KEPT_MAX_BYTES,
  type KeepableConnection,
  type OpenEnd,
  type ParkedEnd,
  ParkedEnds,
} from '@dormouse/egress'
import type { Burrow, PortConnection } from '@dormouse/engine'

/** Of one sandbox. Further connections end when it sleeps. */
const KEPT_MAX = 512

interface SandboxConnections {
  readonly open: Set<KeptIncoming>
  readonly parked: ParkedEnds
}

/** Connections of this server to ports of sandboxes that outlive their sleeps: WebSockets, streams, SSH forwards. */
export class IncomingConnections {
  readonly #addon: EndAddon | undefined
  readonly #budget = { leftBytes: KEPT_MAX_BYTES }
  readonly #sandboxes = new Map<SandboxId, SandboxConnections>()

  /** `endAddon` as in `Engine`. */
  constructor(endAddon: string | undefined) {
    this.#addon = endAddon === undefined ? undefined : createRequire(import.meta.url)(endAddon)
  }

  /** From now on the connection outlives sleeps of its sandbox. */
  keep(id: SandboxId, burrow: Burrow, connection: PortConnection): void {
    if (this.#addon === undefined || !isSocket(connection) || connection.destroyed) return
    const { open, parked } = this.#of(id)
    const isKnown = [...open].some((kept) => kept.connection === connection)
    if (!isKnown && open.size >= KEPT_MAX) return
    connection.outlives = true
    if (isKnown) return
    const kept = new KeptIncoming(connection, burrow)
    open.add(kept)
    connection.once('close', () => {
      open.delete(kept)
      parked.forget(kept)
      if (open.size === 0 && this.#sandboxes.get(id)?.open === open) this.#sandboxes.delete(id)
    })
  }

  park(id: SandboxId): readonly ParkedEnd[] {
    const found = this.#sandboxes.get(id)
    if (found === undefined) return []
    return found.parked.park([...found.open].filter(({ connection }) => connection.outlives === true))
  }

  listOpen(id: SandboxId): readonly string[] {
    return [...(this.#sandboxes.get(id)?.open ?? [])].filter(({ isParked }) => !isParked).map(({ to }) => to)
  }

  unpark(id: SandboxId): void {
    this.#sandboxes.get(id)?.parked.unpark()
  }

  /** Connections continue in `burrow`. Those that were parked and have no end there are over. */
  resume(id: SandboxId, burrow: Burrow, ends: readonly OpenEnd[]): void {
    if (ends.length === 0 && !this.#sandboxes.has(id)) return
    const { open, parked } = this.#of(id)
    for (const kept of open) if (kept.isParked) kept.burrow = burrow
    parked.resume(ends)
  }

  endParked(id: SandboxId): void {
    this.#endWhere(id, ({ isParked }) => isParked)
  }

  /** The burrow is gone, and with it every connection that is not parked. Returns what those connected to. */
  leaveBurrow(id: SandboxId, burrow: Burrow): readonly string[] {
    this.#sandboxes.get(id)?.parked.leaveBurrow()
    const isLost = (kept: KeptIncoming) => kept.burrow === burrow && !kept.isParked
    const lost = [...(this.#sandboxes.get(id)?.open ?? [])].filter(isLost).map(({ to }) => to)
    this.#endWhere(id, isLost)
    return lost
  }

  forget(id: SandboxId): void {
    this.#endWhere(id, () => true)
  }

  #endWhere(id: SandboxId, isMeant: (kept: KeptIncoming) => boolean): void {
    for (const kept of [...(this.#sandboxes.get(id)?.open ?? [])]) if (isMeant(kept)) kept.abandon()
  }

  #of(id: SandboxId): SandboxConnections {
    const found = this.#sandboxes.get(id)
    if (found !== undefined) return found
    const made = { open: new Set<KeptIncoming>(), parked: new ParkedEnds(this.#addon, this.#budget) }
    this.#sandboxes.set(id, made)
    return made
  }
}

function isSocket(connection: PortConnection): connection is PortConnection & Socket {
  return connection instanceof Socket
}

class KeptIncoming implements KeepableConnection {
  readonly connection: PortConnection & Socket
  readonly to: string
  burrow: Burrow

  constructor(connection: PortConnection & Socket, burrow: Burrow) {
    this.connection = connection
    this.burrow = burrow
    this.to = `from a client to port ${connection.remotePort}`
  }

  get client(): Socket {
    return this.connection
  }

  get isParked(): boolean {
    return this.connection.isParked === true
  }

  set isParked(isParked: boolean) {
    this.connection.isParked = isParked
    if (isParked) this.connection.emit('parked')
  }

  abandon(): void {
    this.connection.destroy(
      new DormouseError('agent_unreachable', 'The connection did not outlive the sleep.'),
    )
  }
}
