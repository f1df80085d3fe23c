import { DormouseError, type SandboxId } from '@dormouse/contracts'

export interface FreeRoom {
  readonly bytes: number
  readonly files: number
}

export interface FreeSpaceWatchOptions {
  /** Free space that sandboxes must leave to the host. 0: none. */
  readonly reserve: FreeRoom
  /** Free space now: one system call. */
  readonly free: () => FreeRoom
  readonly clock?: () => number
}

/** Putting a sandbox to standby takes about this long on a busy host, so writers are stopped this early. */
const HORIZON_SECONDS = 3
/** A stopped sandbox may wake when this many times the reserve is free. */
const ENOUGH_FACTOR = 1.25

export interface Threat {
  readonly bytes: boolean
  readonly files: boolean
}

/**
 * Watches the free space on the disk of the data directory, and remembers which sandboxes were stopped to protect it.
 */
export class FreeSpaceWatch {
  readonly #options: FreeSpaceWatchOptions
  readonly #clock: () => number
  readonly #stopped = new Set<SandboxId>()
  #last: { readonly at: number; readonly free: FreeRoom } | undefined

  constructor(options: FreeSpaceWatchOptions) {
    this.#options = options
    this.#clock = options.clock ?? (() => performance.now())
  }

  /** Which part of the reserve will be used soon, at the rate since the last check. */
  check(): Threat {
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

  /** Throws `overloaded` for a sandbox that was stopped, as long as there is too little free space. */
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
