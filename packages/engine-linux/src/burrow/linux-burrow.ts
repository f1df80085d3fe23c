import { setTimeout as sleep } from 'node:timers/promises'
import { allOf, retryUntilDone } from '@dormouse/async'
import {
  type BurrowLimits,
  type BurrowLimitsInput,
  burrowLimitsSchema,
  DormouseError,
  parseInput,
  type SnapshotId,
} from '@dormouse/contracts'
import type { Burrow, BurrowEnd, BurrowMemory, BurrowUsage, ShownDisk } from '@dormouse/engine'
import { AgentClient } from '@dormouse/guest'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import { MemoryPause } from '../cgroup/memory-pause.ts'
import type { BurrowPaths } from '../host/layout.ts'
import { BurrowConnections, type BurrowConnectionsParts } from '../network/burrow-connections.ts'
import { PortConnections } from '../network/port-connections.ts'
import { type FirstProcess, findStopped, isAlive, readEnd, waitForEnd } from '../process/first-process.ts'
import { connectToAgent } from './agent-socket.ts'
import type { BurrowHost } from './burrow-host.ts'
import { type BurrowRecord, prepareRecord, writeRecord } from './burrow-record.ts'
import { countWrites } from './count-writes.ts'
import { describeEnd } from './describe-end.ts'
import { measureMemory } from './measure-memory.ts'
import { removeBurrow } from './remove-burrow.ts'
import { SaveTurn } from './save-turn.ts'
import { ShownLimits } from './shown-limits.ts'

/**
 * When the agent ends, PID 1 follows within moments. A connection that is lost for another reason is simply made again.
 */
const END_AFTER_DISCONNECT_MS = 2_000
/** How often a burrow without a connection is checked for its end: one that runs, and a frozen one. */
const [WATCH_MS, FROZEN_WATCH_MS] = [500, 10_000]
/** The usual obstacle, too many open files, is gone by then. */
const RETRY_MS = 500

interface LinuxBurrowParts extends BurrowConnectionsParts {
  readonly record: BurrowRecord
  readonly paths: BurrowPaths
}

export class LinuxBurrow implements Burrow {
  readonly id
  readonly sandboxId
  readonly template: string
  readonly isolation = 'process'
  readonly createdAt: Date
  readonly guest: AgentClient
  readonly ended: Promise<BurrowEnd>
  readonly paths: BurrowPaths
  readonly first: FirstProcess
  readonly connections: BurrowConnections
  readonly #host: Pick<BurrowHost, 'hierarchies' | 'failures'>
  readonly #cgroup: BurrowCgroup
  readonly memoryPause: MemoryPause
  readonly #ports: PortConnections
  readonly #shown: ShownLimits
  /** Memory that is being moved. It needs threads that run, so a freeze ends it first. */
  moving: { stop(): Promise<unknown>; readonly ended: Promise<unknown> } | undefined
  #record: BurrowRecord
  #end: (end: BurrowEnd) => void = () => {}
  #destroying: Promise<void> | undefined
  #hasEnded = false
  #isReleased = false
  #isWatched = false
  readonly #saving = new SaveTurn()
  /** Processes that were stopped before a snapshot stopped the others. */
  #stoppedBefore: ReadonlySet<number> = new Set()

  constructor(host: Pick<BurrowHost, 'hierarchies' | 'failures'>, parts: LinuxBurrowParts) {
    const { record, paths, first } = parts
    this.paths = paths
    this.first = first
    this.#host = host
    this.#record = record
    this.id = record.id
    this.sandboxId = record.sandboxId
    this.template = record.template
    this.createdAt = new Date(record.createdAt)
    this.#cgroup = new BurrowCgroup(host.hierarchies, paths.cgroup)
    this.memoryPause = new MemoryPause(this.#cgroup.memory)
    this.#shown = new ShownLimits(paths.limits, record.limits, { isFresh: record.state === 'starting' })
    const fields = { sandboxId: record.sandboxId, burrowId: record.id }
    this.connections = new BurrowConnections(parts, host.failures, fields)
    this.#ports = new PortConnections(first)
    this.ended = new Promise((resolve) => {
      this.#end = (end) => {
        this.#hasEnded = true
        this.connections.discard()
        this.#ports.reset()
        resolve(end)
      }
    })
    this.guest = new AgentClient({
      connect: () => connectToAgent(first),
      connectPort: (port, options) => this.#ports.connect(port, options),
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

  /**
   * Makes the record say `ready` once `introduced` is fulfilled, so that the next server adopts the burrow. Until then
   * the agent may have the identity and the random seeds of its snapshot, and must not be adopted. On failure the
   * burrow is released, and the caller removes it.
   */
  async publish(introduced: Promise<void>): Promise<void> {
    const record = { ...this.#record, state: 'ready' as const }
    try {
      const [publish] = await allOf([prepareRecord(this.paths.record, record), introduced])
      await publish()
      this.#record = record
    } catch (error) {
      this.release()
      throw error
    }
  }

  async setLimits(input: BurrowLimitsInput): Promise<void> {
    const limits = parseInput(burrowLimitsSchema, { ...this.limits, ...input }, 'limits')
    await this.#cgroup.apply(limits, this.limits)
    const record = { ...this.#record, limits }
    await writeRecord(this.paths.record, record)
    this.#record = record
    this.#shown.setLimits(limits)
  }

  addEnv(env: Readonly<Record<string, string>>): Promise<void> {
    return this.guest.configure({ sandboxId: this.sandboxId, env })
  }

  async usage(): Promise<BurrowUsage> {
    const usage = await this.#cgroup.usage()
    if (!this.#hasEnded) await this.#shown.setUsage(usage, () => this.#cgroup.memoryParts())
    return usage
  }

  showDisk(disk: ShownDisk): void {
    this.#shown.setDisk(disk)
  }

  waitsForMemory(): Promise<boolean> {
    return this.memoryPause.isWaiting(this.limits)
  }

  withHeadroom<Value>(work: () => Promise<Value>): Promise<Value> {
    return this.memoryPause.withHeadroom(() => this.limits, work)
  }

  async anonymousBytes(): Promise<number> {
    return this.#cgroup.anonymousBytes()
  }

  async writtenSoFar(): Promise<number> {
    // A burrow that has ended has no cgroup.
    return countWrites(await this.pids().catch(() => []))
  }

  async memory(): Promise<BurrowMemory | undefined> {
    return measureMemory(await this.pids().catch(() => []))
  }

  /** Waits for a snapshot that is being taken: CRIU is in the burrow, and its processes must be able to run. */
  async freeze(): Promise<void> {
    await this.#saving.untilOver()
    if (!this.#isEnding()) await this.freezeInSave()
  }

  async freezeInSave(): Promise<void> {
    this.guest.isHeld = true
    await this.moving?.stop()
    await this.#cgroup.freeze().catch((error: unknown) => {
      this.guest.isHeld = false
      throw error
    })
  }

  /** Waits for a snapshot that is being taken. */
  async thaw(): Promise<void> {
    await this.#saving.untilOver()
    await this.thawInSave()
  }

  async thawInSave(): Promise<void> {
    await this.#cgroup.thaw()
    this.guest.isHeld = false
  }

  openGate(...keeper: Parameters<Burrow['openGate']>): ReturnType<Burrow['openGate']> {
    return this.connections.openGate(...keeper)
  }

  takeEnds(): ReturnType<Burrow['takeEnds']> {
    return this.connections.takeEnds()
  }

  /** Whether the server has opened its gate. */
  get hasNetwork(): boolean {
    return this.connections.hasNetwork
  }

  isFrozen(): Promise<boolean> {
    return this.#cgroup.isFrozen()
  }

  /** All of its processes, as the host sees them. */
  async pids(): Promise<number[]> {
    return this.#cgroup.members()
  }

  membersByCgroup(): Promise<number[][]> {
    return this.#cgroup.membersByDirectory()
  }

  get freezerDir(): string {
    const { freezerDirectory } = this.#cgroup
    if (freezerDirectory !== undefined) return freezerDirectory
    throw new DormouseError('host_unsupported', 'This host has no cgroup freezer.')
  }

  /**
   * Before a full snapshot: the agent closes its connections, and calls fail until `resumeAfterFailedSave`. Only one
   * snapshot at a time.
   */
  async quiesce(): Promise<void> {
    this.#beginSaving()
    try {
      // A frozen agent cannot answer.
      await this.thawInSave()
      const held = this.connections.hold()
      const stopped = this.#ports.stop()
      // Waits for `held` also on failure: connections that are held after they were released would stay held.
      await this.guest.quiesce().finally(() => Promise.all([held, stopped]))
      // Programs had a moment to close. What is still open would be in the snapshot without its other end.
      this.#ports.reset()
      this.#stoppedBefore = await findStopped(await this.pids())
    } catch (error) {
      await this.resumeAfterFailedSave({ areStopped: false })
      throw error
    }
  }

  /**
   * Before a snapshot of files: nothing inside runs until `release`, whether the agent answers or not. Then the burrow
   * is as before. A burrow that has ended by itself keeps its files until it is destroyed, so it can be held too.
   */
  async holdFiles(): Promise<{ release(): Promise<void> }> {
    this.#beginSaving()
    const release = async (wasFrozen: boolean) => {
      if (!wasFrozen) await this.#retry(() => this.thawInSave(), this.#isSavingOrEnding)
      this.#saving.end({ isLast: false })
      void this.watch()
    }
    try {
      const wasFrozen = await this.isFrozen()
      if (await isAlive(this.first)) await this.freezeInSave()
      return { release: () => release(wasFrozen) }
    } catch (error) {
      await release(false)
      throw error
    }
  }

  #beginSaving(): void {
    if (this.#destroying !== undefined) throw new DormouseError('burrow_ended', 'The burrow was destroyed.')
    this.#saving.take()
  }

  /**
   * After a snapshot that failed: the processes continue as before, except that a process which handles SIGCONT gets
   * one. Never throws; a step that fails is retried in the background.
   */
  async resumeAfterFailedSave({ areStopped }: { areStopped: boolean }): Promise<void> {
    const stopped = this.#stoppedBefore
    await this.#retry(() => this.connections.release(), this.#isSavingOrEnding)
    // Retried even when the next snapshot is requested: it cannot begin before the agent continues.
    const resume = areStopped ? () => this.#continueProcesses(stopped) : () => this.thawInSave()
    await this.#retry(resume, this.#isEnding)
    this.#stoppedBefore = new Set()
    this.#saving.end({ isLast: false })
    this.guest.resume()
    this.#ports.resume()
    void this.watch()
  }

  /**
   * Frozen meanwhile, so that no process runs before all can: a shell that continues before its stopped job would
   * report the job and take the terminal back.
   */
  async #continueProcesses(stoppedBefore: ReadonlySet<number>): Promise<void> {
    // Without the freeze the processes still continue, only not all at once.
    await this.freezeInSave().catch((error: unknown) => {
      const fields = { sandboxId: this.sandboxId, burrowId: this.id }
      this.#host.failures.report('resume', error, fields, 'the processes of a burrow continue one by one')
    })
    try {
      await this.#cgroup.signal('SIGCONT', stoppedBefore)
    } finally {
      await this.thawInSave()
    }
  }

  #retry(step: () => Promise<void>, isOver: () => boolean): Promise<void> {
    const { sandboxId, id: burrowId } = this
    const onFailure = (error: unknown) =>
      this.#host.failures.report('resume', error, { sandboxId, burrowId }, 'a burrow cannot continue yet')
    return retryUntilDone(step, { delayMs: RETRY_MS, isOver, onFailure })
  }

  readonly #isEnding = () => this.#hasEnded || this.#destroying !== undefined
  readonly #isSavingOrEnding = () => this.#saving.isTaken || this.#isEnding()

  /**
   * After a snapshot that is on disk: ends the processes and removes the burrow. When something cannot be removed the
   * burrow has ended all the same, and `destroy` tries again.
   */
  async endAfterSnapshot(snapshotId: SnapshotId): Promise<void> {
    this.#destroying = removeBurrow(this.paths, this.#host.hierarchies)
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
      this.#saving.end({ isLast: true })
    }
  }

  /** Waits for a snapshot that is being taken: the processes must not end in the middle of it. */
  async destroy(): Promise<void> {
    await this.#saving.untilOver()
    this.#destroying ??= this.#destroy().catch((error: unknown) => {
      // The next call removes what is left.
      this.#destroying = undefined
      throw error
    })
    return this.#destroying
  }

  release(): void {
    this.#isReleased = true
    this.connections.discard()
    this.#ports.reset()
    this.guest.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  async #destroy(): Promise<void> {
    this.guest.close(new DormouseError('burrow_ended', 'The burrow was destroyed.'))
    await Promise.all([removeBurrow(this.paths, this.#host.hierarchies), this.moving?.stop()])
    this.#end({ reason: 'destroyed' })
  }

  /** Reports the end of the burrow if it ends within `timeoutMs`; otherwise watches for it. */
  async #checkEnd(timeoutMs: number): Promise<void> {
    if (this.#saving.isTaken) return
    if (await waitForEnd(this.first, timeoutMs)) await this.#reportEnd()
    else void this.watch()
  }

  /** Notices the end of a burrow without a connection. Returns when it has ended, is connected, or was released. */
  async watch(): Promise<void> {
    if (this.#isWatched) return
    this.#isWatched = true
    while (!this.#isEnding() && !this.#isReleased && !this.guest.isConnected) {
      if (!this.#saving.isTaken && !(await isAlive(this.first))) await this.#reportEnd()
      else await sleep(this.guest.isHeld ? FROZEN_WATCH_MS : WATCH_MS, undefined, { ref: false })
    }
    this.#isWatched = false
  }

  async #reportEnd(): Promise<void> {
    const end = await readEnd(this.paths.endFile)
    if (this.#isSavingOrEnding()) return
    this.guest.close(new DormouseError('burrow_ended', describeEnd(end), { details: { ...end } }))
    this.#end(end)
  }
}
