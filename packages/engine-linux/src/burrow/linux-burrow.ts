import { setTimeout as sleep } from 'node:timers/promises'
import {
  type BurrowId,
  type BurrowLimits,
  type BurrowLimitsInput,
  burrowLimitsSchema,
  DormouseError,
  parseInput,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import type { Burrow, BurrowEnd, BurrowMemory, BurrowUsage, Gate } from '@dormouse/engine'
import { AgentClient } from '@dormouse/guest'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { GateKeeper } from '../network/gate-keeper.ts'
import { holdConnections, releaseConnections } from '../network/open-gate.ts'
import { connectToAgent } from './agent-link.ts'
import { type BurrowRecord, writeRecord } from './burrow-record.ts'
import { countWrites } from './count-writes.ts'
import { type FirstProcess, findState, isAlive, readEnd, waitForEnd } from './first-process.ts'
import { insist } from './insist.ts'
import type { BurrowPaths } from './layout.ts'
import { measureMemory } from './measure-memory.ts'
import { removeBurrow } from './remove-burrow.ts'

/** When the agent is gone PID 1 follows within moments; a connection lost for another reason is simply made again. */
const END_AFTER_DISCONNECT_MS = 2_000
/** How soon the end of one is noticed that nobody is connected to, as after a snapshot that was refused. */
const WATCH_MS = 500

interface LinuxBurrowParts {
  readonly record: BurrowRecord
  readonly paths: BurrowPaths
  readonly first: FirstProcess
  readonly hierarchies: Hierarchies
  /** One that was opened ahead of need. */
  readonly gate?: Gate | undefined
}

export class LinuxBurrow implements Burrow {
  readonly id: BurrowId
  readonly sandboxId: SandboxId
  readonly template: string
  readonly createdAt: Date
  readonly guest: AgentClient
  readonly ended: Promise<BurrowEnd>
  readonly paths: BurrowPaths
  readonly first: FirstProcess
  readonly #parts: LinuxBurrowParts
  readonly #cgroup: BurrowCgroup
  readonly #gate: GateKeeper
  #record: BurrowRecord
  #end: (end: BurrowEnd) => void = () => {}
  #destroying: Promise<void> | undefined
  #hasEnded = false
  #isReleased = false
  #isWatched = false
  #isQuiet = false
  /** Settled unless a snapshot is being taken. */
  #saved: Promise<void> = Promise.resolve()
  #endSaving: () => void = () => {}
  /** Processes that were stopped before a snapshot stopped the others. */
  #stoppedBefore: ReadonlySet<number> = new Set()

  constructor(parts: LinuxBurrowParts) {
    const { record, paths, first } = parts
    this.paths = paths
    this.first = first
    this.#parts = parts
    this.#record = record
    this.id = record.id
    this.sandboxId = record.sandboxId
    this.template = record.template
    this.createdAt = new Date(record.createdAt)
    this.#cgroup = new BurrowCgroup(parts.hierarchies, paths.cgroup)
    this.#gate = new GateKeeper(first, parts.gate)
    this.ended = new Promise((resolve) => {
      this.#end = (end) => {
        this.#hasEnded = true
        this.#gate.closePrepared()
        resolve(end)
      }
    })
    this.guest = new AgentClient({
      connect: () => connectToAgent(first),
      onDisconnect: () => this.#checkEnd(END_AFTER_DISCONNECT_MS),
      onUnreachable: () => this.#checkEnd(0),
    })
  }

  get limits(): BurrowLimits {
    return this.#record.limits
  }

  get record(): BurrowRecord {
    return this.#record
  }

  async setLimits(input: BurrowLimitsInput): Promise<void> {
    const limits = parseInput(burrowLimitsSchema, { ...this.limits, ...input }, 'limits')
    await this.#cgroup.apply(limits, this.limits)
    const record = { ...this.#record, limits }
    await writeRecord(this.#parts.paths.record, record)
    this.#record = record
  }

  async addEnv(env: Readonly<Record<string, string>>): Promise<void> {
    await this.guest.configure({ sandboxId: this.sandboxId, env })
  }

  async usage(): Promise<BurrowUsage> {
    return this.#cgroup.usage()
  }

  async writtenSoFar(): Promise<number> {
    return countWrites(await this.pids().catch(() => []))
  }

  async memory(): Promise<BurrowMemory | undefined> {
    // One that has ended has no cgroup.
    return measureMemory(await this.pids().catch(() => []))
  }

  async freeze(): Promise<void> {
    this.guest.isHeld = true
    await this.#cgroup.freeze().catch((error: unknown) => {
      this.guest.isHeld = false
      throw error
    })
  }

  async thaw(): Promise<void> {
    await this.#cgroup.thaw()
    this.guest.isHeld = false
  }

  openGate(): Promise<Gate> {
    return this.#gate.open()
  }

  /** Whether somebody lets it out. */
  get hasNetwork(): boolean {
    return this.#gate.wasAsked
  }

  isFrozen(): Promise<boolean> {
    return this.#cgroup.isFrozen()
  }

  /** All of its processes, as the host sees them. */
  async pids(): Promise<number[]> {
    return this.#cgroup.members()
  }

  /** The same for each of its cgroups. */
  membersByCgroup(): Promise<number[][]> {
    return this.#cgroup.membersByDirectory()
  }

  get freezerDir(): string {
    const { freezerDirectory } = this.#cgroup
    if (freezerDirectory !== undefined) return freezerDirectory
    throw new DormouseError('host_unsupported', 'This host has no cgroup freezer.')
  }

  /** Before a snapshot: the agent gives up its connections, and calls fail until `goOn`. Only one snapshot at a time. */
  async quiesce(): Promise<void> {
    this.#beginSaving()
    try {
      // An agent that is frozen cannot answer.
      await this.thaw()
      const held = this.#gate.had ? holdConnections(this.first) : undefined
      // Also when that fails: what is held later than it is released stays held.
      await this.guest.quiesce().finally(() => held)
      const states = await Promise.all(
        (await this.pids()).map(async (pid) => ({ pid, state: await findState(pid) })),
      )
      this.#stoppedBefore = new Set(states.filter(({ state }) => state === 'T').map(({ pid }) => pid))
    } catch (error) {
      await this.goOn({ areStopped: false })
      throw error
    }
  }

  /**
   * Before its files alone are saved: nothing inside runs, whether its agent answers or not, until `letGo`, after which all is
   * as before. A burrow that has ended by itself keeps its files until it is destroyed, and can be held too.
   */
  async holdStill(): Promise<{ letGo(): Promise<void> }> {
    this.#beginSaving()
    const letGo = async (wasFrozen: boolean) => {
      if (!wasFrozen) await insist(() => this.thaw(), this.#isOver)
      this.#isQuiet = false
      this.#endSaving()
      void this.watch()
    }
    try {
      const wasFrozen = await this.isFrozen()
      if (await isAlive(this.first)) await this.freeze()
      return { letGo: () => letGo(wasFrozen) }
    } catch (error) {
      await letGo(false)
      throw error
    }
  }

  #beginSaving(): void {
    if (this.#destroying !== undefined) throw new DormouseError('burrow_ended', 'The burrow was destroyed.')
    if (this.#isQuiet)
      throw new DormouseError('conflict', 'A snapshot of this sandbox is being taken already.')
    this.#isQuiet = true
    this.#saved = new Promise((resolve) => {
      this.#endSaving = resolve
    })
  }

  /** After a snapshot that failed: as if nothing had been, but that who handles SIGCONT gets one. Never throws. */
  async goOn({ areStopped }: { areStopped: boolean }): Promise<void> {
    const stopped = this.#stoppedBefore
    if (this.#gate.had) await insist(() => releaseConnections(this.first), this.#isOver)
    // Also while the next one is asked for, which cannot begin before the agent goes on.
    const run = areStopped ? () => this.#continue(stopped) : () => this.thaw()
    await insist(run, this.#isGoing)
    this.#stoppedBefore = new Set()
    this.#isQuiet = false
    this.guest.resume()
    this.#endSaving()
    void this.watch()
  }

  /** None runs before all can: a shell whose job is stopped a moment longer than itself would say so, and take the terminal back. */
  async #continue(stoppedBefore: ReadonlySet<number>): Promise<void> {
    await this.freeze().catch(() => {})
    try {
      await this.#cgroup.signal('SIGCONT', stoppedBefore)
    } finally {
      await this.thaw()
    }
  }

  readonly #isGoing = () => this.#hasEnded || this.#destroying !== undefined
  readonly #isOver = () => this.#isQuiet || this.#isGoing()

  /**
   * After a snapshot that is on disk: the processes go, and all of the burrow with them. When something of it cannot be removed it is
   * over all the same, and `destroy` tries again.
   */
  async endAfterSnapshot(snapshotId: SnapshotId): Promise<void> {
    this.#destroying = removeBurrow(this.#parts.paths, this.#parts.hierarchies)
    try {
      await this.#destroying
    } catch (error) {
      this.#destroying = undefined
      throw error
    } finally {
      this.guest.close(
        new DormouseError('burrow_ended', 'The sandbox was put to sleep.', { details: { snapshotId } }),
      )
      this.#end({ reason: 'stored', snapshotId })
      this.#endSaving()
    }
  }

  /** What is being saved is saved first: the processes must not go in the middle of it. */
  async destroy(): Promise<void> {
    await this.#saved
    this.#destroying ??= this.#destroy().catch((error: unknown) => {
      // Whatever is left can be removed by calling again.
      this.#destroying = undefined
      throw error
    })
    return this.#destroying
  }

  release(): void {
    this.#isReleased = true
    this.#gate.closePrepared()
    this.guest.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  async #destroy(): Promise<void> {
    this.guest.close(new DormouseError('burrow_ended', 'The burrow was destroyed.'))
    await removeBurrow(this.#parts.paths, this.#parts.hierarchies)
    this.#end({ reason: 'destroyed' })
  }

  /** Post: if it has ended within the time that is known, and otherwise as soon as it does or answers again. */
  async #checkEnd(timeoutMs: number): Promise<void> {
    if (this.#isQuiet) return
    if (await waitForEnd(this.first, timeoutMs)) await this.#tellEnd()
    else void this.watch()
  }

  /** Notices its end also while the agent has no connection. Returns when it has ended, is connected, or was released. */
  async watch(): Promise<void> {
    if (this.#isWatched) return
    this.#isWatched = true
    while (!this.#isGoing() && !this.#isReleased && !this.guest.isConnected) {
      if (!this.#isQuiet && !(await isAlive(this.first))) await this.#tellEnd()
      else await sleep(WATCH_MS, undefined, { ref: false })
    }
    this.#isWatched = false
  }

  async #tellEnd(): Promise<void> {
    const end = await readEnd(this.paths.endFile)
    if (this.#isQuiet || this.#isGoing()) return
    this.guest.close(new DormouseError('burrow_ended', describeEnd(end), { details: { ...end } }))
    this.#end(end)
  }
}

function describeEnd(end: BurrowEnd): string {
  if (end.reason !== 'agent_ended') return 'The burrow was killed from outside.'
  const how =
    end.signal === undefined ? `exited with code ${end.exitCode}` : `was killed by signal ${end.signal}`
  return `The agent of the burrow ${how}.`
}
