import { hasErrorCode, type VolumeId } from '@dormouse/contracts'
import type { Burrow, DiskUse, Engine } from '@dormouse/engine'
import { DiskMeasuring, type MeasuredTree } from '../host/disk-measuring.ts'
import type { FreeSpaceWatch } from '../host/free-space-watch.ts'
import type { Log } from '../log.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { Sandbox } from './sandbox.ts'
import type { SandboxListener } from './sandbox-listener.ts'
import type { Sandboxes } from './sandboxes.ts'
import { showDisk } from './show-disk.ts'
import { endWriter, sleepForHost, sleepOverLimit } from './transitions/stop-writer.ts'

export interface DiskWatchOptions {
  readonly sandboxes: Sandboxes
  readonly engine: Pick<Engine, 'measureWritten'>
  readonly freeSpace: FreeSpaceWatch
  /** Bytes of the journal of one sandbox. */
  readonly journalBytes: (id: SandboxRow['id']) => number
  /** Volumes that a sandbox may have written to. Calls `onOver` with those that hold more than they may. */
  readonly volumes: (onOver: (id: VolumeId) => void) => readonly MeasuredTree[]
  readonly log: Log
}

/** A sandbox that writes slower than this cannot fill a disk between two measurements. */
const WRITER_BYTES_PER_SECOND = 1024 ** 2
const WRITER_FILES_PER_SECOND = 500
/** When several write at once, those slower than this share of the fastest are not stopped. */
const WRITER_SHARE = 0.25
/** A sandbox over its limit that could not be saved this many times loses its processes. */
const REFUSALS_MAX = 3

interface WriteRate {
  readonly at: number
  readonly bytes: number
  readonly bytesPerSecond: number
}

/**
 * Enforces disk limits. The file systems of most hosts have no quota that the server could set, so a sandbox that
 * writes too much is found a little late. It is put to standby, nothing is lost, and it cannot wake before its limit
 * is raised. Before the host's reserve of free space is touched, the fastest writers are put to standby whatever
 * their limits are.
 */
export class DiskWatch implements Disposable {
  readonly listener: SandboxListener = { awake: (row, { burrow }) => showDisk(burrow, row.limits) }
  readonly #options: DiskWatchOptions
  readonly #measuring: DiskMeasuring
  /** By burrow: a sleeping sandbox must not hold its last one in memory. */
  readonly #rates = new WeakMap<Burrow, WriteRate>()
  readonly #stopping = new Set<Sandbox>()
  readonly #refusals = new WeakMap<Burrow, number>()
  #isInRound = false

  constructor(options: DiskWatchOptions) {
    this.#options = options
    this.#measuring = new DiskMeasuring(options.log)
  }

  [Symbol.dispose](): void {
    this.#measuring[Symbol.dispose]()
  }

  /** May take long; the caller does not wait for it. */
  async round(): Promise<void> {
    if (this.#isInRound) return
    this.#isInRound = true
    try {
      const running = [...this.#options.sandboxes.awake()].filter(
        (sandbox) => runningBurrow(sandbox) !== undefined,
      )
      await Promise.all(running.map((sandbox) => this.#readRate(sandbox)))
      const trees = running.map((sandbox) => this.#treeOf(sandbox))
      this.#measuring.round([...trees, ...this.#options.volumes((id) => this.stopWritersOf(id))])
      this.#protectHost(running)
    } finally {
      this.#isInRound = false
    }
  }

  /** A volume is over its limit: puts sandboxes that can write to it to standby. */
  stopWritersOf(id: VolumeId): void {
    for (const sandbox of this.#options.sandboxes.awake()) {
      const canWrite = sandbox.row.volumes.some(({ volumeId, readOnly }) => volumeId === id && !readOnly)
      if (canWrite && runningBurrow(sandbox) !== undefined) void this.#stop(sandbox)
    }
  }

  /** The kernel counts bytes written by processes. Reading that is cheap, and shows which sandbox to measure first. */
  async #readRate(sandbox: Sandbox): Promise<void> {
    const burrow = runningBurrow(sandbox)
    if (burrow === undefined) return
    const before = this.#rates.get(burrow)
    // A burrow that ended meanwhile writes nothing.
    const bytes = await burrow.writtenSoFar().catch(() => undefined)
    if (bytes === undefined) return
    const at = performance.now()
    const seconds = before === undefined ? 0 : (at - before.at) / 1_000
    const bytesPerSecond = seconds > 0 ? Math.max(0, (bytes - (before?.bytes ?? 0)) / seconds) : 0
    this.#rates.set(burrow, { at, bytes, bytesPerSecond })
  }

  #treeOf(sandbox: Sandbox): MeasuredTree {
    const { engine, journalBytes } = this.#options
    const burrow = runningBurrow(sandbox)
    const { diskBytes: bytes, files } = sandbox.row.limits
    return {
      // Another burrow has another tree.
      key: burrow,
      bytesPerSecond: this.#rateOf(burrow),
      limits: { bytes, files },
      begin: () => engine.measureWritten(burrow as Burrow, { bytes, files }),
      found: async (written) => {
        const use = { ...written, bytes: written.bytes + journalBytes(sandbox.id) }
        const { limits } = sandbox.row
        showDisk(burrow as Burrow, limits, use)
        const isOver = use.bytes > limits.diskBytes || use.files > limits.files
        if (isOver && sandbox.burrow === burrow) await this.#stop(sandbox, use)
      },
    }
  }

  /** Stops the fastest writers before the host has less free space than its reserve. */
  #protectHost(running: readonly Sandbox[]): void {
    const { freeSpace, log } = this.#options
    const threat = freeSpace.check()
    if (!threat.bytes && !threat.files) return
    const writers = running
      .map((sandbox) => ({ sandbox, speed: this.#speedOf(sandbox, threat.bytes ? 'bytes' : 'files') }))
      .filter(({ speed }) => speed >= 1)
      .sort((a, b) => b.speed - a.speed)
    const [fastest] = writers
    if (fastest === undefined) {
      this.#measuring.measureAllNow()
      return
    }
    for (const { sandbox, speed } of writers) {
      if (speed < fastest.speed * WRITER_SHARE) return
      log.warn({ sandboxId: sandbox.id }, 'the disk is nearly full: a fast writer is put to standby')
      freeSpace.stop(sandbox.id)
      void this.#stop(sandbox)
    }
  }

  /** 1: as fast as the slowest writer that counts. */
  #speedOf(sandbox: Sandbox, kind: 'bytes' | 'files'): number {
    const growth = this.#measuring.growthOf(runningBurrow(sandbox))
    if (kind === 'files') return growth.filesPerSecond / WRITER_FILES_PER_SECOND
    const rate = this.#rateOf(runningBurrow(sandbox))
    return Math.max(rate, growth.bytesPerSecond) / WRITER_BYTES_PER_SECOND
  }

  #rateOf(burrow: Burrow | undefined): number {
    return (burrow && this.#rates.get(burrow)?.bytesPerSecond) ?? 0
  }

  /** `use`: what is over the limits of the sandbox. Undefined: it is stopped to protect the host. */
  async #stop(sandbox: Sandbox, use?: DiskUse): Promise<void> {
    if (this.#stopping.has(sandbox)) return
    this.#stopping.add(sandbox)
    const { burrow } = sandbox
    try {
      const asleep = use === undefined ? sleepForHost(sandbox) : sleepOverLimit(sandbox, use)
      await asleep.catch(async (error: unknown) => {
        if (!hasErrorCode(error, 'snapshot_refused') || burrow === undefined) throw error
        const refusals = (this.#refusals.get(burrow) ?? 0) + 1
        this.#refusals.set(burrow, refusals)
        // A sandbox that cannot be saved must not write on: its files are kept, its processes end.
        if (use !== undefined && refusals < REFUSALS_MAX) throw error
        await endWriter(sandbox, use)
      })
    } catch (error) {
      const fields = { sandboxId: sandbox.id, err: error }
      this.#options.log.warn(fields, 'a sandbox that writes too much could not be put to standby')
    } finally {
      this.#stopping.delete(sandbox)
    }
  }
}

function runningBurrow({ row, burrow }: Sandbox): Burrow | undefined {
  return row.state === 'running' ? burrow : undefined
}
