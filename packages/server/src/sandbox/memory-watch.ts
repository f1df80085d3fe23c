import { allOf } from '@dormouse/async'
import type { Burrow, BurrowUsage } from '@dormouse/engine'
import { capitalised, howToRaise, inBinaryUnits, reachedLimit } from './memory-words.ts'
import type { Sandbox } from './sandbox.ts'

/** A sandbox is warned about when its processes use this share of its limit. */
const HIGH_SHARE = 0.85
/** It is warned about again after they used less than this. */
const LOW_SHARE = 0.75
/** The end of a run or a command follows within this time after Linux killed its process. */
const CLAIM_MS = 10_000
/** A program that is started and killed again and again must not push everything else out of the ledger. */
const ENTRIES_MAX = 20
const ENTRY_INTERVAL_MS = 60_000
/** More kills at once than runs and commands that end with them. */
const MAX_UNCLAIMED = 16
/** As many ended commands as the agent remembers. */
const MAX_CLAIMS = 256

/** What last happened to the memory of a sandbox. */
export interface MemoryNotice {
  readonly event: 'memory_high' | 'out_of_memory'
  readonly atMs: number
  readonly limitBytes: number
  readonly peakBytes: number
  readonly message: string
}

/**
 * Notices when Linux kills processes of one sandbox for memory, and when the sandbox comes near its limit. All numbers
 * come from the host: code inside cannot change them.
 */
export class MemoryWatch {
  readonly #sandbox: Sandbox
  #burrow: Burrow | undefined
  #kills = 0
  /** When each kill was seen that no run or command has reported yet, by the monotonic clock. */
  #unclaimed: number[] = []
  /** Whether a kill explains the end of a run or a command. */
  readonly #claims = new Map<string, Promise<string | undefined>>()
  #outOfMemory: MemoryNotice | undefined
  #memoryHigh: MemoryNotice | undefined
  #isWaiting = false
  /** The limit near which it has been since the last warning. */
  #warnedAtBytes: number | undefined
  #entries = 0
  #lastEntryMs = 0

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox
  }

  /**
   * Undefined: nothing happened in this burrow, or the limit was raised since. A kill is shown rather than a warning,
   * even a later one: it explains what is missing, and the advice is the same.
   */
  get notice(): MemoryNotice | undefined {
    const { burrow, row } = this.#sandbox
    if (burrow !== this.#burrow || row.state !== 'running') return undefined
    const { memoryBytes } = row.limits
    return [this.#outOfMemory, this.#memoryHigh].find((notice) => notice?.limitBytes === memoryBytes)
  }

  /** Its processes wait at its memory limit: it is to be paused. */
  get isWaiting(): boolean {
    return this.#isWaiting && this.#sandbox.burrow === this.#burrow
  }

  /** `isAdopted`: an earlier server has recorded the kills so far. */
  async enterBurrow(burrow: Burrow, { isAdopted }: { isAdopted: boolean }): Promise<void> {
    this.#burrow = burrow
    this.#kills = 0
    this.#unclaimed = []
    this.#outOfMemory = undefined
    this.#memoryHigh = undefined
    this.#isWaiting = false
    this.#warnedAtBytes = undefined
    this.#entries = 0
    void burrow.ended.then(() => this.#leave(burrow))
    if (!isAdopted) return
    // A burrow that ended meanwhile has no cgroup to read.
    const usage = await burrow.usage().catch(() => undefined)
    if (usage !== undefined && this.#burrow === burrow) this.#kills = Math.max(this.#kills, usage.oomKills)
  }

  /** A sleeping sandbox must not hold its last burrow in memory, with the connection to its agent. */
  #leave(burrow: Burrow): void {
    if (this.#burrow !== burrow) return
    this.#burrow = undefined
    this.#isWaiting = false
  }

  /** Called with every sample of a running sandbox. */
  async observe(burrow: Burrow, usage: BurrowUsage): Promise<void> {
    if (burrow !== this.#burrow) return
    this.#countKills(burrow, usage)
    const { memoryBytes: limitBytes } = burrow.limits
    // Most of it may be page cache, which Linux gives back. Asking for the rest costs more than this sample.
    if (usage.memoryBytes < limitBytes * LOW_SHARE) {
      this.#isWaiting = false
      return this.#leaveHigh()
    }
    // A burrow that ended meanwhile has no cgroup to read.
    const measured = await allOf([burrow.anonymousBytes(), burrow.waitsForMemory()]).catch(() => undefined)
    if (measured === undefined || burrow !== this.#burrow) return
    const [usedBytes, isWaiting] = measured
    this.#isWaiting = isWaiting
    if (usedBytes < limitBytes * LOW_SHARE) this.#leaveHigh()
    else if (usedBytes >= limitBytes * HIGH_SHARE && this.#warnedAtBytes !== limitBytes)
      this.#enterHigh(usedBytes, { limitBytes, peakBytes: usage.memoryPeakBytes })
  }

  /**
   * SIGKILL ended a run or a command, of which this is the id: says what happened if Linux killed it for memory. Each
   * kill explains one end, to all who ask.
   */
  claimKill(id: string): Promise<string | undefined> {
    const claim = this.#claims.get(id) ?? this.#claim()
    this.#claims.set(id, claim)
    const [oldest] = this.#claims.keys()
    if (this.#claims.size > MAX_CLAIMS && oldest !== undefined) this.#claims.delete(oldest)
    return claim
  }

  async #claim(): Promise<string | undefined> {
    const burrow = this.#burrow
    // A burrow that ended meanwhile has no cgroup to read.
    const usage = await burrow?.usage().catch(() => undefined)
    if (burrow === undefined || usage === undefined || burrow !== this.#burrow) return undefined
    this.#countKills(burrow, usage)
    const since = this.#sandbox.deps.clock.monotonicMs() - CLAIM_MS
    this.#unclaimed = this.#unclaimed.filter((at) => at >= since)
    if (this.#unclaimed.shift() === undefined) return undefined
    return reachedLimit({ limitBytes: burrow.limits.memoryBytes, peakBytes: usage.memoryPeakBytes })
  }

  #countKills(burrow: Burrow, { oomKills, memoryPeakBytes: peakBytes }: BurrowUsage): void {
    const count = oomKills - this.#kills
    if (count <= 0) return
    this.#kills = oomKills
    const { clock } = this.#sandbox.deps
    // Kills remain here when no caller asks how a process ended.
    const kept = [
      ...this.#unclaimed,
      ...new Array<number>(Math.min(count, MAX_UNCLAIMED)).fill(clock.monotonicMs()),
    ]
    this.#unclaimed = kept.slice(-MAX_UNCLAIMED)
    const { memoryBytes: limitBytes } = burrow.limits
    const killed = count === 1 ? 'a process' : `${count} processes`
    const what = capitalised(reachedLimit({ limitBytes, peakBytes }))
    this.#outOfMemory = this.#record({
      event: 'out_of_memory',
      limitBytes,
      peakBytes,
      message: `${what}, and Linux killed ${killed}.`,
    })
  }

  #enterHigh(usedBytes: number, figures: { limitBytes: number; peakBytes: number }): void {
    const { limitBytes } = figures
    this.#warnedAtBytes = limitBytes
    const share = Math.round((100 * usedBytes) / limitBytes)
    const used = `${inBinaryUnits(usedBytes)} of ${inBinaryUnits(limitBytes)} (${share} %)`
    this.#memoryHigh = this.#record({
      event: 'memory_high',
      ...figures,
      message: `Its processes use ${used} of memory.`,
    })
  }

  #leaveHigh(): void {
    this.#warnedAtBytes = undefined
    this.#memoryHigh = undefined
  }

  /** Writes it to the ledger, if the ledger has room for it. */
  #record({ message, ...figures }: Omit<MemoryNotice, 'atMs'>): MemoryNotice {
    const { deps, id, row, isDeleted } = this.#sandbox
    const notice = { ...figures, message: `${message} ${howToRaise(row)}`, atMs: deps.clock.wallMs() }
    if (isDeleted || !this.#mayRecord()) return notice
    try {
      this.#sandbox.write({
        entry: { event: notice.event, cause: 'memory', detail: message },
        withoutSync: true,
      })
    } catch (error) {
      // Probably a full disk; `why` shows it all the same.
      deps.log.warn(
        { sandboxId: id, err: error },
        'what happened to the memory of a sandbox is not in its ledger',
      )
    }
    return notice
  }

  /** True for the first entries of a burrow, then once a minute. */
  #mayRecord(): boolean {
    const now = this.#sandbox.deps.clock.monotonicMs()
    if (this.#entries >= ENTRIES_MAX && now - this.#lastEntryMs < ENTRY_INTERVAL_MS) return false
    this.#entries += 1
    this.#lastEntryMs = now
    return true
  }
}
