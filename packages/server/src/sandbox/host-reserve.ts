import { DormouseError, type SandboxId } from '@dormouse/contracts'

export interface FreeRoom {
  readonly bytes: number
  readonly files: number
}

export interface HostReserveOptions {
  /** What is left to the host. 0: nothing is. */
  readonly reserve: FreeRoom
  /** One system call, whatever is on the disk. */
  readonly free: () => FreeRoom
  readonly clock?: () => number
}

/** Putting a sandbox to standby takes about this long on a busy host: a writer is stopped while there is still this much time. */
const HORIZON_SECONDS = 3
/** One that was stopped may wake when there is this many times the reserve. */
const ENOUGH_FACTOR = 1.25

export interface Threat {
  readonly bytes: boolean
  readonly files: boolean
}

/** Watches the room that the disk of the data directory has left, and remembers which sandboxes were stopped for it. */
export class HostReserve {
  readonly #options: HostReserveOptions
  readonly #clock: () => number
  readonly #stopped = new Set<SandboxId>()
  #last: { readonly at: number; readonly free: FreeRoom } | undefined

  constructor(options: HostReserveOptions) {
    this.#options = options
    this.#clock = options.clock ?? (() => performance.now())
  }

  /** Which part of the reserve will be touched soon, at the speed at which room went since the last look. */
  look(): Threat {
    const { reserve, free: read } = this.#options
    const at = this.#clock()
    const free = read()
    const last = this.#last
    this.#last = { at, free }
    const seconds = last === undefined ? 0 : (at - last.at) / 1_000
    const isThreatened = (kind: keyof FreeRoom) => {
      if (reserve[kind] === 0) return false
      const perSecond =
        last === undefined || seconds <= 0 ? 0 : Math.max(0, (last.free[kind] - free[kind]) / seconds)
      return free[kind] - perSecond * HORIZON_SECONDS < reserve[kind]
    }
    return { bytes: isThreatened('bytes'), files: isThreatened('files') }
  }

  stop(id: SandboxId): void {
    this.#stopped.add(id)
  }

  /** Throws `overloaded` for a sandbox that was stopped because it wrote fast, as long as there is no room for it. */
  requireRoomFor(id: SandboxId): void {
    if (!this.#stopped.has(id)) return
    const { reserve, free: read } = this.#options
    const free = read()
    if (free.bytes >= reserve.bytes * ENOUGH_FACTOR && free.files >= reserve.files * ENOUGH_FACTOR) {
      this.#stopped.delete(id)
      return
    }
    throw new DormouseError('overloaded', 'The host is low on disk space, and this sandbox was filling it.', {
      hint: 'It is asleep with everything in it. It can wake when there is room: delete sandboxes, snapshots or volumes.',
      details: { reason: 'disk', retryAfterMs: 60_000 },
    })
  }
}
