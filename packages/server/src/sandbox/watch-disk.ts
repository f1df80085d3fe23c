import { hasErrorCode, type VolumeId } from '@dormouse/contracts'
import type { Burrow, DiskUse } from '@dormouse/engine'
import type { HostReserve } from './host-reserve.ts'
import type { LiveSandbox } from './live-sandbox.ts'
import { MeasuringTurns, type Subject } from './measuring-turns.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'

export interface DiskWatchOptions {
  readonly registry: SandboxRegistry
  readonly reserve: HostReserve
  /** Volumes that somebody may have written to. */
  readonly volumes: () => readonly Subject[]
}

/** Slower than this nobody fills a disk between two measurements. */
const WRITER_BYTES_PER_SECOND = 1024 ** 2
const WRITER_FILES_PER_SECOND = 500
/** Of all that write at the same time, those that do not write at least this share of the fastest are left alone. */
const WRITER_SHARE = 0.25
/** One that has passed its limit and could not be saved so many times loses its processes. */
const REFUSALS_MAX = 3

interface Counted {
  readonly burrow: Burrow
  readonly at: number
  readonly bytes: number
  readonly bytesPerSecond: number
}

/**
 * Looks after the disk. The file systems of most hosts have no quota that we could set for sandboxes, so one that writes too much is found a little
 * late: it is put to standby then, nothing lost, and stays there until it may have more. Before the room that is left to the host is
 * touched, those that write fastest are put to standby at once, whatever their limits are.
 */
export class DiskWatch implements Disposable {
  readonly #options: DiskWatchOptions
  readonly #turns: MeasuringTurns
  readonly #counted = new WeakMap<LiveSandbox, Counted>()
  readonly #stopping = new Set<LiveSandbox>()
  readonly #refusals = new WeakMap<Burrow, number>()
  #isCounting = false

  constructor(options: DiskWatchOptions) {
    this.#options = options
    this.#turns = new MeasuringTurns(options.registry.parts.log)
  }

  /** Takes its time; whoever calls it does not wait. */
  async round(): Promise<void> {
    if (this.#isCounting) return
    this.#isCounting = true
    try {
      const running = [...this.#options.registry.all()].filter(({ body }) => burrowOf(body) !== undefined)
      await Promise.all(running.map((sandbox) => this.#count(sandbox)))
      this.#turns.round([...running.map((sandbox) => this.#subject(sandbox)), ...this.#options.volumes()])
      this.#keepReserve(running)
    } finally {
      this.#isCounting = false
    }
  }

  /** A volume holds more than it may: sandboxes that can write to it are put to standby. */
  stopWriters(id: VolumeId): void {
    for (const sandbox of this.#options.registry.all()) {
      const { burrow, row } = sandbox.body
      const canWrite = row.volumes.some(({ volumeId, readOnly }) => volumeId === id && !readOnly)
      if (burrow !== undefined && row.state === 'running' && canWrite) void this.#stop(sandbox)
    }
  }

  [Symbol.dispose](): void {
    this.#turns[Symbol.dispose]()
  }

  /** The kernel counts what processes write: that costs little, and says whom to look at first. */
  async #count(sandbox: LiveSandbox): Promise<void> {
    const burrow = burrowOf(sandbox.body)
    const before = this.#counted.get(sandbox)
    const bytes = await burrow?.writtenSoFar().catch(() => undefined)
    if (burrow === undefined || bytes === undefined) return
    const at = performance.now()
    const seconds = before?.burrow === burrow ? (at - before.at) / 1_000 : 0
    const bytesPerSecond = seconds > 0 ? Math.max(0, (bytes - (before?.bytes ?? 0)) / seconds) : 0
    this.#counted.set(sandbox, { burrow, at, bytes, bytesPerSecond })
  }

  #subject(sandbox: LiveSandbox): Subject {
    const { body } = sandbox
    const { engine, journalBytes } = this.#options.registry.parts
    const burrow = burrowOf(body)
    const { diskBytes: bytes, files } = body.row.limits
    return {
      // Another burrow is another tree.
      key: burrow,
      bytesPerSecond: this.#counted.get(sandbox)?.bytesPerSecond ?? 0,
      limits: { bytes, files },
      begin: () => engine.measureWritten(burrow as Burrow, { bytes, files }),
      found: async (written) => {
        const use = { ...written, bytes: written.bytes + journalBytes(body.id) }
        const isOver = use.bytes > body.row.limits.diskBytes || use.files > body.row.limits.files
        if (isOver && body.burrow === burrow) await this.#stop(sandbox, use)
      },
    }
  }

  /** Stops those that write fastest before the host has less left than it keeps for itself. */
  #keepReserve(running: readonly LiveSandbox[]): void {
    const threat = this.#options.reserve.look()
    if (!threat.bytes && !threat.files) return
    const { reserve, registry } = this.#options
    const writers = running
      .map((sandbox) => ({ sandbox, speed: this.#speedOf(sandbox, threat.bytes ? 'bytes' : 'files') }))
      .filter(({ speed }) => speed >= 1)
      .sort((a, b) => b.speed - a.speed)
    const [fastest] = writers
    if (fastest === undefined) {
      this.#turns.hurry()
      return
    }
    for (const { sandbox, speed } of writers) {
      if (speed < fastest.speed * WRITER_SHARE) return
      registry.parts.log.warn({ sandboxId: sandbox.id }, 'the disk is nearly full; a fast writer is stopped')
      reserve.stop(sandbox.id)
      void this.#stop(sandbox)
    }
  }

  /** In multiples of what makes a writer. */
  #speedOf(sandbox: LiveSandbox, kind: 'bytes' | 'files'): number {
    const growth = this.#turns.growthOf(burrowOf(sandbox.body))
    if (kind === 'files') return growth.filesPerSecond / WRITER_FILES_PER_SECOND
    const counted = this.#counted.get(sandbox)?.bytesPerSecond ?? 0
    return Math.max(counted, growth.bytesPerSecond) / WRITER_BYTES_PER_SECOND
  }

  /** `use`: what it has too much of. Without, it is stopped for the sake of the host. */
  async #stop(sandbox: LiveSandbox, use?: DiskUse): Promise<void> {
    if (this.#stopping.has(sandbox)) return
    this.#stopping.add(sandbox)
    const { burrow } = sandbox.body
    try {
      const asleep = use === undefined ? sandbox.sleepForHost() : sandbox.sleepForDisk(use)
      await asleep.catch(async (error: unknown) => {
        if (!hasErrorCode(error, 'snapshot_refused') || burrow === undefined) throw error
        const refusals = (this.#refusals.get(burrow) ?? 0) + 1
        this.#refusals.set(burrow, refusals)
        // What cannot be saved must not write on for that: its files are kept, its processes end.
        if (use !== undefined && refusals < REFUSALS_MAX) throw error
        await sandbox.endForDisk(use)
      })
    } catch (error) {
      const fields = { sandboxId: sandbox.id, err: error }
      this.#options.registry.parts.log.warn(fields, 'one that writes too much could not be put to standby')
    } finally {
      this.#stopping.delete(sandbox)
    }
  }
}

function burrowOf({ row, burrow }: LiveSandbox['body']): Burrow | undefined {
  return row.state === 'running' ? burrow : undefined
}
