import type { SandboxId } from '@dormouse/contracts'
import type { JournalUpkeep } from './journal-upkeep.ts'
import { DISK_SHARE, RUN_OVERHEAD_BYTES, STRIPPED_MAX_BYTES, TAIL_MAX_BYTES } from './limits.ts'
import type { RunJournal } from './run-journal.ts'

export interface JournalSpaceOptions {
  readonly journal: RunJournal
  readonly upkeep: JournalUpkeep
  /** Bounds for one run, and for all runs of a sandbox together. */
  readonly runBytes: number
  readonly sandboxBytes: number
  /** The disk limit of a sandbox; undefined: it no longer exists. */
  readonly diskLimitOf: (id: SandboxId) => number | undefined
  readonly keepRuns: number
  readonly keepMs: number
  readonly now: () => number
}

/** Old runs of a sandbox are removed after this many runs have ended. */
const PRUNE_EVERY = 64

/**
 * Counts how much the journal holds of each sandbox, and enforces its bounds. When a sandbox reaches its bound, its
 * oldest finished runs lose all events but `start` and `exit`.
 */
export class JournalSpace {
  readonly #options: JournalSpaceOptions
  readonly #used = new Map<SandboxId, number>()
  readonly #ended = new Map<SandboxId, number>()
  /** Runs that are being removed or stripped. They must not be counted twice. */
  readonly #leaving = new Set<number>()

  constructor(options: JournalSpaceOptions) {
    this.#options = options
  }

  bytesOf(id: SandboxId): number {
    let used = this.#used.get(id)
    if (used === undefined) {
      used = this.#options.journal.bytesOf(id)
      this.#used.set(id, used)
    }
    return used
  }

  /** Whether a run that holds `keptBytes` may store this much more. If so, the bytes are counted. */
  grant(id: SandboxId, bytes: number, keptBytes: number): boolean {
    const limit = this.#limitOf(id)
    if (keptBytes + bytes > Math.min(this.#options.runBytes, limit) - this.tailBytes(id)) return false
    if (this.bytesOf(id) + bytes > limit) this.#strip(id, bytes)
    if (this.bytesOf(id) + bytes > limit) return false
    this.charge(id, bytes)
    return true
  }

  /** Counts bytes that are stored whatever the bound says. */
  charge(id: SandboxId, bytes: number): void {
    this.#used.set(id, this.bytesOf(id) + bytes)
  }

  /** How many bytes of its last events a run keeps. */
  tailBytes(id: SandboxId): number {
    return Math.min(TAIL_MAX_BYTES, this.#options.runBytes / 2, this.#limitOf(id) / 8)
  }

  /** A run of this sandbox has ended. */
  ended(id: SandboxId): void {
    const { keepRuns, keepMs, now } = this.#options
    const count = (this.#ended.get(id) ?? 0) + 1
    this.#ended.set(id, count)
    const isOver = this.bytesOf(id) > this.#limitOf(id)
    if (isOver) this.#strip(id, 0)
    if (count % PRUNE_EVERY !== 0 && !isOver) return
    const before = now() - keepMs
    const finished = this.#options.journal.finished(id).filter((run) => !this.#leaving.has(run.id))
    const removed = finished.filter((run, index) => {
      const isOld = run.finishedAt < before || index < finished.length - keepRuns
      // Many small runs can exceed the bound as well. The newest run stays: its caller may be about to read it.
      const isTooMuch = this.bytesOf(id) > this.#limitOf(id) && index < finished.length - 1
      if (isOld || isTooMuch) this.#leave(id, run, run.bytes)
      return isOld || isTooMuch
    })
    if (removed.length === 0) return
    this.#options.upkeep.removeRuns(removed, () => {
      for (const run of removed) this.#leaving.delete(run.id)
    })
  }

  /** Removes all runs of a deleted sandbox. */
  forget(id: SandboxId): void {
    this.#used.delete(id)
    this.#ended.delete(id)
    this.#options.journal.settle()
    this.#options.upkeep.removeSandbox(id)
  }

  #strip(id: SandboxId, wantedBytes: number): void {
    const limit = this.#limitOf(id)
    for (const run of this.#options.journal.finished(id)) {
      if (this.bytesOf(id) + wantedBytes <= limit) return
      if (run.bytes <= STRIPPED_MAX_BYTES || this.#leaving.has(run.id)) continue
      this.#leave(id, run, run.bytes - run.codeBytes - RUN_OVERHEAD_BYTES)
      this.#options.upkeep.strip(run, () => this.#leaving.delete(run.id))
    }
  }

  #leave(id: SandboxId, run: { id: number }, bytes: number): void {
    this.#leaving.add(run.id)
    this.charge(id, -bytes)
  }

  #limitOf(id: SandboxId): number {
    const { sandboxBytes, diskLimitOf } = this.#options
    return Math.min(sandboxBytes, (diskLimitOf(id) ?? Number.POSITIVE_INFINITY) * DISK_SHARE)
  }
}
