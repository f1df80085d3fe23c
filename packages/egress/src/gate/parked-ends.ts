import { closeSync } from 'node:fs'
import { Socket } from 'node:net'
import { KEPT_MAX_BYTES_PER_SANDBOX } from '../limits.ts'
import type { EndAddon } from './end-addon.ts'
import { reset } from './reset.ts'

/** A connection whose end can leave its burrow and come back in another. */
export interface KeepableConnection {
  readonly client: Socket
  /** The connections to the server outside. They are reset when this process ends while `client` is parked. */
  readonly outside?: readonly Socket[]
  /** What it connects to, for people: `example.com:443`. */
  readonly to: string
  /** Whether its end is out of the burrow. Nothing times out meanwhile. */
  isParked: boolean
  /** The program inside has closed its end: what it had sent still arrives outside. */
  abandon(): void
}

export interface ParkedEnd {
  readonly id: number
  readonly record: Uint8Array
  readonly to: string
}

export interface OpenEnd {
  readonly id: number
  readonly fd: number
}

interface Parked {
  readonly connection: KeepableConnection
  readonly recordBytes: number
  readonly standIn: number
  /** Undefined once the burrow that it was taken out of is gone. */
  old: number | undefined
}

/** Bytes that the parked ends of all sandboxes may still use. */
export interface KeptBudget {
  leftBytes: number
}

let nextId = 1

/** The ends of one sandbox's connections that are out of its burrow: see `GateKeeper` of the engine. */
export class ParkedEnds {
  readonly #addon: EndAddon | undefined
  readonly #budget: KeptBudget
  readonly #parked = new Map<number, Parked>()

  constructor(addon: EndAddon | undefined, budget: KeptBudget) {
    this.#addon = addon
    this.#budget = budget
  }

  get isEmpty(): boolean {
    return this.#parked.size === 0
  }

  /** Those that cannot be kept stay as they are, and end with their burrow. */
  park(connections: Iterable<KeepableConnection>): readonly ParkedEnd[] {
    const open = [...connections].filter(
      (connection) => !connection.isParked && descriptorOf(connection.client) !== -1,
    )
    const fds = Int32Array.from(open, ({ client }) => descriptorOf(client))
    const maxBytes = Math.min(this.#budget.leftBytes, KEPT_MAX_BYTES_PER_SANDBOX)
    const taken = fds.length === 0 ? [] : (this.#addon?.parkEnds(fds, maxBytes) ?? [])
    return open.flatMap((connection, index) => {
      const end = taken[index]
      if (end === undefined) return []
      const { record, old, standIn } = end
      const id = nextId++
      connection.isParked = true
      this.#resetOnClose(connection, true)
      this.#budget.leftBytes -= record.length
      this.#parked.set(id, { connection, recordBytes: record.length, standIn, old })
      return [{ id, record, to: connection.to }]
    })
  }

  /** The ends continue in the burrow that they were taken out of. */
  unpark(): void {
    const ends: number[] = []
    for (const [id, parked] of this.#parked) {
      const { connection, old, standIn } = parked
      const fd = descriptorOf(connection.client)
      if (fd === -1 || old === undefined) continue
      ends.push(fd, old, standIn)
      parked.old = undefined
      this.#remove(id, parked)
    }
    if (ends.length > 0) this.#addon?.reviveEnds(Int32Array.from(ends))
    this.#abandonParked()
  }

  /** The ends continue in a new burrow. Connections without an end there are abandoned. Owns the descriptors. */
  resume(open: readonly OpenEnd[]): void {
    const ends: number[] = []
    for (const { id, fd: next } of open) {
      const parked = this.#parked.get(id)
      const fd = parked === undefined ? -1 : descriptorOf(parked.connection.client)
      if (parked === undefined || fd === -1) {
        // The program inside sees that the connection has ended.
        reset(new Socket({ fd: next }))
        continue
      }
      ends.push(fd, next, parked.standIn)
      this.#remove(id, parked)
    }
    if (ends.length > 0) this.#addon?.putEnds(Int32Array.from(ends))
    this.#abandonParked()
  }

  /** The burrow that the ends were taken out of is gone. */
  leaveBurrow(): void {
    for (const parked of this.#parked.values()) closeOld(parked)
  }

  /** The connection has ended. */
  forget(connection: KeepableConnection): void {
    for (const [id, parked] of this.#parked) {
      if (parked.connection !== connection) continue
      this.#remove(id, parked)
      closeSync(parked.standIn)
    }
  }

  #abandonParked(): void {
    for (const { connection } of [...this.#parked.values()]) {
      this.#resetOnClose(connection, false)
      connection.abandon()
    }
  }

  #resetOnClose({ outside = [] }: KeepableConnection, isOn: boolean): void {
    const fds = outside.map(descriptorOf).filter((fd) => fd !== -1)
    if (fds.length > 0) this.#addon?.resetOnClose(Int32Array.from(fds), isOn)
  }

  #remove(id: number, parked: Parked): void {
    closeOld(parked)
    parked.connection.isParked = false
    this.#resetOnClose(parked.connection, false)
    this.#budget.leftBytes += parked.recordBytes
    this.#parked.delete(id)
  }
}

/** In repair mode, so the other end hears nothing of it. */
function closeOld(parked: Parked): void {
  if (parked.old !== undefined) closeSync(parked.old)
  parked.old = undefined
}

/** -1 for a socket that is closed. */
function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as Socket & { readonly _handle?: { readonly fd?: number } | null }
  return socket.destroyed ? -1 : (handle?.fd ?? -1)
}
