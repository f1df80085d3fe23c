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
  readonly open: Map<PortConnection, KeptIncoming>
  readonly parked: ParkedEnds
}

export interface KeepOptions {
  /** A client waits for the first byte of an answer. It would wait as long as the sandbox sleeps. */
  readonly isAwaited?: boolean
}

export type KeepArguments = [connection: PortConnection, options?: KeepOptions]

/**
 * Connections of this server to ports of sandboxes that outlive their sleeps: WebSockets, streams, SSH forwards. Those
 * whose client waits for an answer outlive checkpoints, snapshots and forks, after which the sandbox continues at once.
 */
export class IncomingConnections {
  readonly #addon: EndAddon | undefined
  readonly #budget = { leftBytes: KEPT_MAX_BYTES }
  readonly #sandboxes = new Map<SandboxId, SandboxConnections>()

  /** `endAddon` as in `Engine`. */
  constructor(endAddon: string | undefined) {
    this.#addon = endAddon === undefined ? undefined : createRequire(import.meta.url)(endAddon)
  }

  /** From now on the connection outlives sleeps of its sandbox. */
  keep(
    id: SandboxId,
    burrow: Burrow,
    connection: PortConnection,
    { isAwaited = false }: KeepOptions = {},
  ): void {
    if (this.#addon === undefined || !isSocket(connection) || connection.destroyed) return
    const { open, parked } = this.#of(id)
    const known = open.get(connection)
    if (known === undefined && open.size >= KEPT_MAX) return
    connection.outlives = true
    const kept = known ?? new KeptIncoming(connection, burrow)
    kept.isAwaited = isAwaited
    if (known !== undefined) return
    open.set(connection, kept)
    connection.once('close', () => {
      open.delete(connection)
      parked.forget(kept)
      if (open.size === 0 && this.#sandboxes.get(id)?.open === open) this.#sandboxes.delete(id)
    })
  }

  /** The sandbox is about to sleep. Call before its connections are parked. */
  endAwaited(id: SandboxId): void {
    for (const { connection, isAwaited } of this.#openOf(id)) if (isAwaited) connection.outlives = false
  }

  park(id: SandboxId): readonly ParkedEnd[] {
    const found = this.#sandboxes.get(id)
    return found === undefined ? [] : found.parked.park(this.#openOf(id).filter(({ outlives }) => outlives))
  }

  listOpen(id: SandboxId): readonly string[] {
    return this.#openOf(id)
      .filter(({ isParked, outlives }) => outlives && !isParked)
      .map(({ to }) => to)
  }

  unpark(id: SandboxId): void {
    this.#sandboxes.get(id)?.parked.unpark()
  }

  /** Connections continue in `burrow`. Those that were parked and have no end there are over. */
  resume(id: SandboxId, burrow: Burrow, ends: readonly OpenEnd[]): void {
    if (ends.length === 0 && !this.#sandboxes.has(id)) return
    const { open, parked } = this.#of(id)
    for (const kept of open.values()) if (kept.isParked) kept.burrow = burrow
    parked.resume(ends)
  }

  endParked(id: SandboxId): void {
    this.#endWhere(id, ({ isParked }) => isParked)
  }

  /** The burrow is gone, and with it every connection that is not parked. Returns what those connected to. */
  leaveBurrow(id: SandboxId, burrow: Burrow): readonly string[] {
    this.#sandboxes.get(id)?.parked.leaveBurrow()
    const isLost = (kept: KeptIncoming) => kept.burrow === burrow && !kept.isParked
    const lost = this.#openOf(id).filter((kept) => kept.outlives && isLost(kept))
    this.#endWhere(id, isLost)
    return lost.map(({ to }) => to)
  }

  forget(id: SandboxId): void {
    this.#endWhere(id, () => true)
  }

  #endWhere(id: SandboxId, isMeant: (kept: KeptIncoming) => boolean): void {
    for (const kept of this.#openOf(id)) if (isMeant(kept)) kept.abandon()
  }

  #openOf(id: SandboxId): readonly KeptIncoming[] {
    return [...(this.#sandboxes.get(id)?.open.values() ?? [])]
  }

  #of(id: SandboxId): SandboxConnections {
    const found = this.#sandboxes.get(id)
    if (found !== undefined) return found
    const made = { open: new Map(), parked: new ParkedEnds(this.#addon, this.#budget) }
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
  isAwaited = false

  constructor(connection: PortConnection & Socket, burrow: Burrow) {
    this.connection = connection
    this.burrow = burrow
    this.to = `from a client to port ${connection.remotePort}`
  }

  get client(): Socket {
    return this.connection
  }

  /** False while it waits for the next request. */
  get outlives(): boolean {
    return this.connection.outlives === true
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
      new DormouseError('agent_unreachable', 'The connection ended when the sandbox was saved.'),
    )
  }
}
