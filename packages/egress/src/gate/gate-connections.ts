import type { CompiledPolicy } from '../policy/compiled-policy.ts'
import type { EndAddon } from './end-addon.ts'
import {
  type KeepableConnection,
  type KeptBudget,
  type OpenEnd,
  type ParkedEnd,
  ParkedEnds,
} from './parked-ends.ts'

/** A connection that arrived at a gate. */
export interface GateClient {
  open?(): Promise<void>
  end(): void
  recheck?(policy: CompiledPolicy, haveSecretsChanged: boolean): void
  /** Present when it can outlive its burrow. */
  readonly keepable?: KeepableConnection
}

/** The connections of one sandbox. Outlives its gates: those that are parked continue in the next burrow. */
export class GateConnections {
  /** With the function that releases its slot. */
  readonly #open = new Map<GateClient, () => void>()
  readonly #parked: ParkedEnds

  constructor(addon: EndAddon | undefined, budget: KeptBudget) {
    this.#parked = new ParkedEnds(addon, budget)
  }

  /** Whether some wait for the next burrow. */
  get areParked(): boolean {
    return !this.#parked.isEmpty
  }

  add(connection: GateClient, release: () => void): void {
    this.#open.set(connection, release)
  }

  remove(connection: GateClient): void {
    const release = this.#open.get(connection)
    this.#open.delete(connection)
    if (connection.keepable !== undefined) this.#parked.forget(connection.keepable)
    release?.()
  }

  recheck(policy: CompiledPolicy, haveSecretsChanged: boolean): void {
    for (const connection of this.#open.keys()) connection.recheck?.(policy, haveSecretsChanged)
  }

  park(): readonly ParkedEnd[] {
    return this.#parked.park([...this.#open.keys()].flatMap(({ keepable }) => keepable ?? []))
  }

  /** What the connections connect to that are not parked, and that the program inside has not closed. */
  listOpen(): readonly string[] {
    return [...this.#open.keys()].flatMap(({ keepable }) =>
      keepable === undefined || keepable.isParked || keepable.client.readableEnded ? [] : [keepable.to],
    )
  }

  unpark(): void {
    this.#parked.unpark()
  }

  resume(ends: readonly OpenEnd[]): void {
    this.#parked.resume(ends)
  }

  /** The burrow is gone, and with it every connection that is not parked. Returns what those connected to. */
  leaveBurrow(): readonly string[] {
    this.#parked.leaveBurrow()
    const lost = this.listOpen()
    this.#endWhere(({ keepable }) => keepable?.isParked !== true)
    return lost
  }

  endParked(): void {
    this.#endWhere(({ keepable }) => keepable?.isParked === true)
  }

  endAll(): void {
    this.#endWhere(() => true)
  }

  #endWhere(isMeant: (connection: GateClient) => boolean): void {
    for (const connection of [...this.#open.keys()]) if (isMeant(connection)) connection.end()
  }
}
