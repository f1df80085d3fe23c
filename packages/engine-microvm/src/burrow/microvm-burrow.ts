import { abortable } from '@dormouse/async'
import {
  type BurrowLimits,
  type BurrowLimitsInput,
  burrowLimitsSchema,
  DormouseError,
  parseInput,
  type SnapshotId,
} from '@dormouse/contracts'
import type {
  Burrow,
  BurrowEnd,
  BurrowMemory,
  BurrowUsage,
  Gate,
  GateKeeper,
  OpenEnd,
} from '@dormouse/engine'
import {
  BurrowConnections,
  type BurrowEnds,
  envSchema,
  type FirstProcess,
  FULL_SHARE,
  isAlive,
  waitForEnd,
} from '@dormouse/engine-linux/for-engines'
import { AgentClient } from '@dormouse/guest'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { type MicrovmRecord, writeRecord } from './burrow-record.ts'
import { BurrowVolumes } from './burrow-volumes.ts'
import { connectToPort } from './connect-port.ts'
import { GuestNumbers } from './guest-usage.ts'
import { guestLimits, hostLimits, refuseBelowUse, refuseLimits } from './host-limits.ts'
import type { LaunchedQemu } from './launched-qemu.ts'
import { memoryOfQemu, writtenByQemu } from './qemu-process.ts'
import { removeBurrow } from './remove-burrow.ts'

/** A machine whose agent has ended turns itself off at once. */
const TURN_OFF_MS = 5_000
/** Programs end if a limit is set that is below what they use. */
const REFUSAL_TIMEOUT_MS = 20_000

/** A virtual machine with its QEMU, disks and agent. */
export class MicrovmBurrow implements Burrow {
  readonly id
  readonly sandboxId
  readonly template
  readonly isolation = 'microvm'
  readonly createdAt
  readonly guest: AgentClient
  readonly ended: Promise<BurrowEnd>
  readonly first: FirstProcess
  readonly paths: MicrovmBurrowPaths
  readonly #host: MicrovmHost
  readonly #qemu: LaunchedQemu
  readonly connections: BurrowConnections
  readonly volumes: BurrowVolumes
  readonly numbers: GuestNumbers
  record: MicrovmRecord
  isFrozen = false
  /** What the guest has last been told. Undefined: other limits, or those of an earlier server. */
  #toldLimits: BurrowLimits | undefined
  #isReleased = false
  #hasEnded = false
  #isSaving = false
  #saved: Promise<void> = Promise.resolve()
  #endSaving: () => void = () => {}
  #destroying: Promise<void> | undefined
  #end: (end: BurrowEnd) => void = () => {}

  constructor(
    host: MicrovmHost,
    paths: MicrovmBurrowPaths,
    record: MicrovmRecord,
    qemu: LaunchedQemu,
    ends?: BurrowEnds,
  ) {
    this.#host = host
    this.#qemu = qemu
    this.paths = paths
    this.record = record
    this.id = record.id
    this.sandboxId = record.sandboxId
    this.template = record.base.template
    this.createdAt = new Date(record.createdAt)
    this.first = qemu.first
    const fields = { sandboxId: record.sandboxId, burrowId: record.id }
    this.connections = new BurrowConnections({ first: qemu.first, ends }, host.failures, fields)
    this.volumes = new BurrowVolumes(paths, qemu.link, record.volumes)
    this.numbers = new GuestNumbers(qemu.link, () => this.isFrozen || this.#isSaving || this.#hasEnded)
    this.ended = new Promise((resolve) => {
      this.#end = (end) => {
        this.#hasEnded = true
        resolve(end)
      }
    })
    this.guest = new AgentClient({
      connect: () => qemu.link.open('agent'),
      connectPort: (port, options) => connectToPort(qemu.link, port, options),
      onDisconnect: () => this.#checkEnd(),
      onUnreachable: () => this.#checkEnd(),
    })
    void qemu.qmp.closed.then(() => this.#checkEnd())
  }

  get limits(): BurrowLimits {
    return this.record.limits
  }

  get qmp() {
    return this.#qemu.qmp
  }

  get link() {
    return this.#qemu.link
  }

  async publish(): Promise<void> {
    await this.#update({ state: 'ready' })
  }

  /** Pre: the disks and the burrow's own have the same content together as before. */
  async useDisks(disks: readonly string[]): Promise<void> {
    await this.#update({ base: { ...this.record.base, disks: [...disks] } })
  }

  async setLimits(input: BurrowLimitsInput): Promise<void> {
    const limits = parseInput(burrowLimitsSchema, { ...this.limits, ...input }, 'limits')
    refuseLimits(limits, this.record.base.machine)
    if (limits.memoryBytes < this.limits.memoryBytes) await this.requireRoom(limits)
    await this.applyLimits(limits)
    await this.#update({ limits })
  }

  /** The guest's kernel would end programs until the rest fits. Of a frozen guest the last number is known. */
  async requireRoom({ memoryBytes }: BurrowLimits): Promise<void> {
    const { memoryBytes: allBytes, heldBytes: usedBytes = allBytes } =
      await this.numbers.ask(REFUSAL_TIMEOUT_MS)
    refuseBelowUse(memoryBytes, usedBytes)
  }

  /** Tells the host's kernel, and the guest's: at once, or when it runs again. */
  async applyLimits(limits: BurrowLimits): Promise<void> {
    await this.#qemu.cgroup.apply(hostLimits(limits, this.record.base.machine))
    if (!this.isFrozen) await this.#tellLimits(limits)
  }

  async #tellLimits(limits: BurrowLimits, how?: { isPausing: boolean }): Promise<void> {
    await this.link.control(guestLimits(limits, this.record.base.machine, how))
    this.#toldLimits = how === undefined ? limits : undefined
  }

  async addEnv(env: Readonly<Record<string, string>>): Promise<void> {
    const checked = parseInput(envSchema, env, 'env')
    await this.guest.configure({ sandboxId: this.sandboxId, env: checked })
  }

  /** Memory and CPU time are those of QEMU: what the sandbox costs its host. */
  async usage(): Promise<BurrowUsage> {
    const [outside, { pids, oomKills }] = await Promise.all([this.#qemu.cgroup.usage(), this.numbers.ask()])
    return { ...outside, pids, oomKills }
  }

  async waitsForMemory(): Promise<boolean> {
    const { memoryBytes, atMemoryLimit } = this.limits
    if (atMemoryLimit !== 'pause') return false
    const { heldBytes = 0 } = await this.numbers.ask()
    return heldBytes >= memoryBytes * FULL_SHARE
  }

  async withHeadroom<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.limits.atMemoryLimit !== 'pause' || this.isFrozen) return work()
    // A guest that does not answer is saved all the same.
    await this.#tellLimits(this.limits, { isPausing: false }).catch(() => {})
    try {
      return await work()
    } finally {
      // A frozen guest is told when it runs again.
      if (!this.#hasEnded && !this.isFrozen) await this.#tellLimits(this.limits).catch(() => {})
    }
  }

  /** Of its programs: QEMU has about 100 MB of its own. */
  async anonymousBytes(): Promise<number> {
    return (await this.numbers.ask()).heldBytes ?? this.#qemu.cgroup.anonymousBytes()
  }

  /** The guest sees the size of its own disk. */
  showDisk(): void {}

  writtenSoFar(): Promise<number> {
    return writtenByQemu(this.first)
  }

  memory(): Promise<BurrowMemory | undefined> {
    return memoryOfQemu(this.first)
  }

  /** Waits for a snapshot that is being taken. Nothing is frozen that ended with it. */
  async freeze(): Promise<void> {
    await this.#saved
    if (!this.#isEnding()) await this.#freezeInSave()
  }

  async #freezeInSave(): Promise<void> {
    this.guest.isHeld = true
    await this.qmp.execute('stop')
    this.isFrozen = true
  }

  /** Waits for a snapshot that is being taken. */
  async thaw(): Promise<void> {
    await this.#saved
    if (!this.#isEnding()) await this.#thawInSave()
  }

  #isEnding(): boolean {
    return this.#hasEnded || this.#destroying !== undefined
  }

  async #thawInSave(): Promise<void> {
    await this.qmp.execute('cont')
    this.isFrozen = false
    this.guest.isHeld = false
    this.connectVolumes()
    if (this.#toldLimits !== this.limits) this.#inBackground(this.#tellLimits(this.limits), 'has old limits')
  }

  /** Does not wait for the guest. */
  connectVolumes(): void {
    if (this.#isReleased || this.#hasEnded) return
    this.#inBackground(this.volumes.connect(), 'has no connection to its volumes')
  }

  /** A guest that does not answer must not prevent what its host does with it. */
  #inBackground(work: Promise<void>, problem: string): void {
    work.catch((error: unknown) => {
      if (!this.#hasEnded) this.#report('resume', error, `a virtual machine ${problem}`)
    })
  }

  /** Stops the guest, so that it changes no file of a volume, until `release`. */
  async holdFiles(): Promise<{ release(): Promise<void> }> {
    this.claimSaving()
    try {
      // What programs have changed in memory only, in mapped files.
      if (!this.isFrozen) await this.link.control('sync').catch(() => {})
      const held = await this.stopForSaving()
      return { release: () => this.resumeAfterFailedSave(held) }
    } catch (error) {
      this.giveUpSaving()
      throw error
    }
  }

  /** The guest's card ends in the network namespace of its QEMU, where the gate listens. */
  async openGate(keeper?: GateKeeper): Promise<Gate> {
    if (!this.#host.hasNetwork)
      throw new DormouseError('host_unsupported', 'Virtual machines have no network here.')
    return this.connections.openGate(keeper)
  }

  takeEnds(): readonly OpenEnd[] {
    return this.connections.takeEnds()
  }

  /** A snapshot refers to memory files of the one before, which may be on their way. Undefined when all are here. */
  memoryToArrive(signal?: AbortSignal): Promise<void> | undefined {
    const { parent } = this.record
    const { arrivals } = this.#host
    if (parent === undefined || !arrivals.isArriving(parent)) return undefined
    return abortable(arrivals.require(parent), signal)
  }

  /**
   * The first step of a snapshot, taken before anything is awaited: from now on `destroy` waits for the snapshot, and a
   * second one is refused. Ends with `giveUpSaving`, `resumeAfterFailedSave` or `endAfterSnapshot`.
   */
  claimSaving({ mayHaveEnded = false } = {}): void {
    if (this.#destroying !== undefined || (this.#hasEnded && !mayHaveEnded))
      throw new DormouseError('burrow_ended', 'This burrow has ended.')
    if (this.#isSaving)
      throw new DormouseError('conflict', 'A snapshot of this sandbox is being taken already.')
    this.#isSaving = true
    this.#saved = new Promise((resolve) => {
      this.#endSaving = resolve
    })
  }

  /** Pre: `claimSaving`. Post: the guest stands still. */
  async stopForSaving(): Promise<{ wasFrozen: boolean }> {
    const wasFrozen = this.isFrozen
    if (!this.#hasEnded && !wasFrozen) await this.#freezeInSave()
    return { wasFrozen }
  }

  /** Instead of a snapshot, while the guest runs as before. */
  giveUpSaving(): void {
    this.#finishSaving()
  }

  /** After a snapshot that failed, or one of files: the guest continues as before. */
  async resumeAfterFailedSave({ wasFrozen }: { wasFrozen: boolean }): Promise<void> {
    await this.connections
      .release()
      .catch((error: unknown) => this.#report('network', error, 'connections of a burrow did not continue'))
    // A machine that has ended cannot be thawed: see `#finishSaving`.
    if (!wasFrozen && !this.#hasEnded) await this.#thawInSave().catch(() => {})
    this.#finishSaving()
  }

  /** After a snapshot that is on disk. */
  async endAfterSnapshot(snapshotId: SnapshotId): Promise<void> {
    this.#destroying = removeBurrow(this.#host, this.paths, this.first)
    try {
      await this.#destroying
    } finally {
      this.guest.close(
        new DormouseError('burrow_ended', 'The sandbox was put to sleep.', { details: { snapshotId } }),
      )
      this.#disconnect()
      this.#end({ reason: 'stored', snapshotId })
      this.#finishSaving()
    }
  }

  async destroy(): Promise<void> {
    await this.#saved
    this.#destroying ??= this.#destroy().catch((error: unknown) => {
      this.#destroying = undefined
      throw error
    })
    return this.#destroying
  }

  release(): void {
    this.#isReleased = true
    this.connections.discard()
    this.guest.close()
    this.#disconnect()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.destroy()
  }

  async #destroy(): Promise<void> {
    this.guest.close(new DormouseError('burrow_ended', 'The burrow was destroyed.'))
    await removeBurrow(this.#host, this.paths, this.first)
    this.#disconnect()
    this.#end({ reason: 'destroyed' })
  }

  #disconnect(): void {
    this.volumes.disconnect()
    this.link.close()
    this.qmp.close()
  }

  #report(kind: 'network' | 'resume', error: unknown, problem: string): void {
    const fields = { sandboxId: this.sandboxId, burrowId: this.id }
    this.#host.failures.report(kind, error, fields, problem)
  }

  #finishSaving(): void {
    this.#isSaving = false
    this.#endSaving()
    // The machine may have ended meanwhile, which nothing reports while a snapshot is taken.
    void this.#checkEnd()
  }

  async #update(change: Partial<MicrovmRecord>): Promise<void> {
    this.record = { ...this.record, ...change }
    await writeRecord(this.paths.record, this.record)
  }

  async #checkEnd(): Promise<void> {
    const isOver = () => this.#isReleased || this.#isEnding() || this.#isSaving
    if (isOver()) return
    const { agentEnd } = this.link
    if (!(await waitForEnd(this.first, agentEnd === undefined ? 200 : TURN_OFF_MS))) {
      // The agent has ended, but the machine does not turn itself off.
      if (agentEnd === undefined) return
      process.kill(this.first.pid, 'SIGKILL')
      await waitForEnd(this.first, TURN_OFF_MS)
    }
    if (isOver() || (await isAlive(this.first))) return
    const end: BurrowEnd = agentEnd ? { reason: 'agent_ended', ...agentEnd } : { reason: 'killed' }
    const why = agentEnd ? 'The agent of the sandbox ended.' : 'The virtual machine of the sandbox ended.'
    const loss = this.#host.arrivals.lossOf(this.record.parent)
    const ended = new DormouseError('burrow_ended', why, { details: { ...end }, cause: loss })
    // The kernel ends a QEMU that touches a page which cannot be fetched any more.
    this.guest.close(loss instanceof DormouseError ? loss : ended)
    this.#disconnect()
    this.#end(end)
  }
}
