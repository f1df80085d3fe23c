import { abortable, ReadWriteLock } from '@dormouse/async'
import type { ProcessEvent, SandboxId, SandboxState, SnapshotId } from '@dormouse/contracts'
import type {
  NetworkReportAnswer,
  SandboxAnswer,
  SandboxMetricsAnswer,
  SnapshotAnswer,
  WhyAnswer,
} from '@dormouse/contracts/http'
import type { Burrow, ConnectProcess, Guest, Snapshot } from '@dormouse/engine'
import { Moment, type Writer } from '../clock/moment.ts'
import type { KeepArguments } from '../network/incoming-connections.ts'
import type { LedgerEntry } from '../store/ledger-rows.ts'
import type { Page } from '../store/page.ts'
import type { SandboxRow, Tier } from '../store/sandbox-rows.ts'
import { ActiveWork, type HoldKind } from './active-work.ts'
import { type AttachOptions, attach } from './attach.ts'
import { attachRun, type RunToFollow } from './attach-run.ts'
import { AttachedProcess } from './attached-process.ts'
import { BackgroundWork } from './background-work.ts'
import { Checkpoints } from './checkpoints.ts'
import { dropFormerHead, dropSnapshot } from './drop-snapshot.ts'
import { endBurrow } from './end-burrow.ts'
import { explainKilledProcess } from './explain-kills.ts'
import { inBackground } from './in-background.ts'
import { MemoryWatch } from './memory-watch.ts'
import { PendingWrites } from './pending-writes.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'
import { callerGaveUp, requireExists } from './sandbox-errors.ts'
import { SandboxReader } from './sandbox-reader.ts'
import { sandboxMetrics, sandboxView, snapshotView } from './sandbox-view.ts'
import { changedRow, lastState, type NewBurrow, type StateChange, writeChange } from './state-change.ts'
import { type PolicyChange, update } from './transitions/change.ts'
import { continueAfter } from './transitions/continue-after.ts'
import { fallAsleep } from './transitions/fall-asleep.ts'
import { finish } from './transitions/finish.ts'
import type { Fork } from './transitions/fork.ts'
import { forkPlaced } from './transitions/fork-placed.ts'
import { recordLoss } from './transitions/lose.ts'
import { promote } from './transitions/promote.ts'
import { deleteSandbox, deleteSandboxSoon } from './transitions/remove.ts'
import { rollbackTo } from './transitions/rollback.ts'
import { takeSnapshot } from './transitions/snapshot.ts'
import { thawNow, wake } from './transitions/wake.ts'
import { type CpuUse, UsageMeter } from './usage-meter.ts'
import type { StandbyCause, UseOptions, WakeCause } from './use-options.ts'
import { explainWhy } from './why.ts'

/**
 * One sandbox: its row, its burrow while it has one, the lock that orders calls and transitions, and the work that
 * keeps it awake. Calls into it share the lock; a transition holds it alone. Methods may be called at any time.
 */
export class Sandbox {
  readonly deps: SandboxDependencies
  readonly lock = new ReadWriteLock({ makeAbortError: callerGaveUp })
  readonly work: ActiveWork
  readonly background = new BackgroundWork(this)
  readonly memory = new MemoryWatch(this)
  readonly checkpoints = new Checkpoints(this)
  readonly reader = new SandboxReader(this)
  /** While there are any, row and burrow are those from before. */
  readonly pendingWrites: PendingWrites
  /** Dead burrows whose files could not be saved. They stay on disk for the next start to try again. */
  readonly unsavedBurrows = new Set<Burrow>()
  /** It is another host's now: callers do not see its copy, which is being removed. */
  isLeaving = false
  /** Its row and its burrows are gone. */
  isRemoved = false
  /** Why the last standby was refused, and when to try again by the monotonic clock. */
  refusal: { reason: string; retryAtMs: number; count: number } | undefined
  #row: SandboxRow
  #effectiveRow: SandboxRow | undefined
  #burrow: Burrow | undefined
  #deadBurrow: Burrow | undefined
  #waking: Promise<void> | undefined
  #openingNetwork: Promise<void> | undefined
  #burrowWaiters: (() => void)[] = []
  readonly #meter: UsageMeter
  readonly #created: Moment
  #stateSince: Moment
  /** A connection to one of its ports outlives its sleeps from now on. */
  readonly keep = (...kept: KeepArguments) => this.deps.network.keep(this.id, ...kept)
  readonly attachProcess = (request: ConnectProcess, options: UseOptions) =>
    AttachedProcess.start(this, request, options)
  /** Starts a run, or follows one that was started before, across burrows. */
  readonly attachRun = (run: RunToFollow) => attachRun(this, run)
  /** Wakes a frozen sandbox that nothing else holds. Undefined: it is not one, so a wake may take long. */
  readonly thawNow = (cause: WakeCause) => thawNow(this, cause)

  /** `writer`: who has made the row. */
  constructor(deps: SandboxDependencies, row: SandboxRow, writer: Writer = 'this server') {
    const { clock } = deps
    const at = (wallMs: number) => Moment.writtenBy(writer, clock, wallMs)
    this.deps = deps
    this.#row = row
    this.#created = at(row.createdAt)
    this.#stateSince = at(row.stateSince)
    this.#meter = new UsageMeter(clock, deps.listeners)
    const maxBackgroundMs = () => this.#row.maxBackgroundMs
    this.work = new ActiveWork({ lastActive: at(row.lastActiveAt), clock, maxBackgroundMs })
    this.pendingWrites = new PendingWrites(clock, () => deps.sandboxes.changed(this))
  }

  get id(): SandboxId {
    return this.#row.id
  }

  get row(): SandboxRow {
    return this.#row
  }

  /** The row that network, quotas and secrets go by: a change under way is in force before it is written. */
  get effectiveRow(): SandboxRow {
    return this.#effectiveRow ?? this.#row
  }

  set effectiveRow(row: SandboxRow | undefined) {
    this.#effectiveRow = row
  }

  get burrow(): Burrow | undefined {
    return this.#burrow
  }

  get isDeleted(): boolean {
    return this.#row.state === 'deleting' || this.isLeaving
  }

  get ageMs(): number {
    return this.#created.elapsedMs
  }

  /** How long it has been in its state. */
  get stateMs(): number {
    return this.#stateSince.elapsedMs
  }

  /**
   * Runs `work` inside: wakes the sandbox if it sleeps (callers share one wake) and keeps it awake and in this burrow
   * until `work` settles. For calls that end soon; longer ones use `attach`.
   */
  async use<Value>(options: UseOptions, work: (guest: Guest) => Promise<Value>): Promise<Value> {
    using _work = this.work.begin('call', options.what)
    for (;;) {
      if (this.runningBurrow() === undefined) await this.wake(options.cause, options.signal)
      // A signal that is made when it is asked for is not needed when the call need not wait.
      const entered = this.lock.isWriting ? this.lock.read(options.signal) : this.lock.read()
      using _held = entered instanceof Promise ? await entered : entered
      const burrow = this.runningBurrow()
      // It may have gone to sleep again while this call waited for the lock.
      if (burrow === undefined) continue
      const preparing = this.preparing(burrow)
      if (preparing !== undefined) await preparing
      return await work(burrow.guest)
    }
  }

  /**
   * Follows something inside for as long as it takes. In the next burrow, `open` is called again with the new guest and
   * must continue after what was seen. Keeps the sandbox awake, but does not delay a standby that is asked for.
   */
  attach<Item>(options: AttachOptions, open: (guest: Guest) => AsyncIterable<Item>): AsyncGenerator<Item> {
    return attach(this, options, open)
  }

  /** An event of a command; its end says so if Linux killed it for memory. */
  explainProcess(processId: string, event: ProcessEvent): Promise<ProcessEvent> {
    return explainKilledProcess(this, processId, event)
  }

  /** Keeps the sandbox awake until disposed, or until `untilMs` has passed. */
  hold(what: string, untilMs?: number, kind: HoldKind = 'hold'): Disposable {
    return this.work.hold(kind, what, untilMs)
  }

  /** All callers share one wake. A caller that gives up does not end it for the others. */
  wake(cause: WakeCause, signal?: AbortSignal): Promise<void> {
    this.work.interruptSleep()
    this.#waking ??= this.exclusive(() => wake(this, cause)).finally(() => {
      this.#waking = undefined
    })
    return abortable(this.#waking, signal, callerGaveUp)
  }

  /** The burrow that it runs in, and that calls may use. Throws when the sandbox is deleted. */
  runningBurrow(): Burrow | undefined {
    requireExists(this)
    const isUsable =
      this.#row.state === 'running' && this.pendingWrites.isEmpty && this.#burrow !== this.#deadBurrow
    return isUsable ? this.#burrow : undefined
  }

  /** The guest, if a call may use it without waiting. It stays usable until the caller waits for something. */
  guestNow(): Guest | undefined {
    const burrow = this.lock.isWriting ? undefined : this.runningBurrow()
    return burrow === undefined || this.preparing(burrow) !== undefined ? undefined : burrow.guest
  }

  /** Waits until the sandbox runs. Does not wake it. */
  async nextBurrow(signal: AbortSignal | undefined): Promise<Burrow> {
    for (;;) {
      const burrow = this.runningBurrow()
      if (burrow !== undefined) return burrow
      await abortable(new Promise<void>((resolve) => this.#burrowWaiters.push(resolve)), signal, callerGaveUp)
    }
  }

  /** Settles when the burrow has its network and what its secrets need. Undefined: it has both. */
  preparing(burrow: Burrow): Promise<unknown> | undefined {
    const secrets = this.deps.secrets.prepare(this, burrow)
    return secrets === undefined ? this.#openingNetwork : Promise.all([secrets, this.#openingNetwork])
  }

  /** Resolves when it sleeps at least that deep, or stays awake: work began while it fell asleep for being idle. */
  standby(how: { tier: Tier; cause: StandbyCause }): Promise<SandboxAnswer> {
    return fallAsleep(this, how, (work) => this.#change(work))
  }

  async resume(cause: WakeCause): Promise<SandboxAnswer> {
    while (this.runningBurrow() === undefined) await this.wake(cause)
    this.work.touch()
    return this.view()
  }

  async fork(request: Fork): Promise<readonly SandboxAnswer[]> {
    using _work = this.work.begin('call', 'fork')
    return await forkPlaced(this, request)
  }

  async snapshot(options: { name: string | undefined; kind: 'full' | 'files' }): Promise<SnapshotAnswer> {
    return snapshotView(this.deps, await this.exclusive(() => takeSnapshot(this, options)))
  }

  rollback(to: string, cause = 'asked'): Promise<SandboxAnswer> {
    return this.#change(() => rollbackTo(this, { to, cause }))
  }

  /** The sandbox that this one was forked from continues as this one. Returns the parent. */
  promote(options: { keep: boolean }): Promise<SandboxAnswer> {
    return promote(this, options)
  }

  update(change: PolicyChange): Promise<SandboxAnswer> {
    return continueAfter(this, () => this.#change(() => update(this, change)))
  }

  delete(): Promise<void> {
    return deleteSandbox(this)
  }

  deleteSoon(): Promise<void> {
    return deleteSandboxSoon(this)
  }

  /** Saves the sandbox and ends it. Only the snapshot is left, until a template refers to it or the next start. */
  finish(kind: Snapshot['kind']): Promise<Snapshot> {
    return this.exclusive(() => finish(this, kind))
  }

  /** Resolves when the gate goes by `effectiveRow` and the current values of its secrets. */
  applyNetwork(): Promise<void> {
    return this.deps.network.change(this)
  }

  view(): SandboxAnswer {
    return sandboxView(this)
  }

  async why(): Promise<WhyAnswer> {
    await this.background.check()
    return explainWhy(this, (this.burrow && (await this.deps.memory.measure(this.burrow)))?.copied)
  }

  ledger(options: { after?: number; limit: number }): Page<LedgerEntry> {
    return this.deps.ledger.list(this.id, options)
  }

  async network(): Promise<NetworkReportAnswer> {
    return { ...this.view().network, ...(await this.deps.network.report(this.id)) }
  }

  metrics(options: { withMemory: boolean }): Promise<SandboxMetricsAnswer> {
    return sandboxMetrics(this, options)
  }

  // State: only transitions, which hold the lock alone, use what follows.

  /** Holds the lock alone. Pending writes come first, so that the row says what has become of the sandbox. */
  exclusive<Value>(work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    return this.lock.write(async () => {
      await this.flushPendingWrites()
      return work()
    }, signal)
  }

  /** Records what could not be recorded yet, if there is something. */
  settle(): Promise<void> {
    return this.exclusive(async () => {})
  }

  async flushPendingWrites(): Promise<void> {
    if (this.pendingWrites.isEmpty) return
    await this.pendingWrites.flush()
    if (this.#row.state === 'deleting') this.deps.sandboxes.remove(this)
  }

  /** Records an outcome. If that fails, throws, and `write` stays pending until it succeeds. */
  async recordOutcome(write: () => void | Promise<void>, burrow?: Burrow): Promise<void> {
    try {
      await write()
    } catch (error) {
      this.pendingWrites.add({ write, burrow })
      throw error
    }
  }

  /** Moves through one or more states, each of which the table must allow, in one transaction. */
  move(to: SandboxState | readonly SandboxState[], change: StateChange = {}): void {
    const state = lastState(this.#row.state, to)
    this.#meter.countRunning(this.#row)
    this.write({ ...change, fields: { state, stateSince: this.deps.clock.wallMs(), ...change.fields } })
    this.#stateSince = Moment.now(this.deps.clock)
    if (state === 'running') this.#meter.startRunning()
    else this.#meter.stopRunning()
    if (state === 'running' || state === 'deleting')
      for (const notify of this.#burrowWaiters.splice(0)) notify()
  }

  /** Writes without a change of state. */
  write(change: StateChange): void {
    const { fields, newBurrow, entry } = change
    const before = this.#row
    const left = this.#burrow
    const burrow = newBurrow === undefined ? left : newBurrow?.burrow
    const row = changedRow(before, { lastActiveAt: this.work.lastActiveAt, burrow: burrow?.id, ...fields })
    writeChange(this.deps, { row, before, change })
    this.#row = row
    this.deps.sandboxes.changed(this, before)
    if (newBurrow === null) this.leaveBurrow()
    else if (newBurrow !== undefined) this.enterBurrow(newBurrow)
    // Most burrows have ended by now. Ending one again does nothing.
    if (left !== undefined && left !== this.#burrow && !this.unsavedBurrows.has(left))
      inBackground(this.deps, endBurrow(this.deps, left))
    for (const listener of this.deps.listeners) {
      listener.changed?.(row, before)
      if (entry !== undefined) listener.recorded?.(row, entry)
    }
  }

  /** The sandbox lives in this burrow from now on. The row says so already, or is written next. */
  enterBurrow({ burrow, isContinued, isAdopted = false }: NewBurrow): void {
    this.#burrow = burrow
    if (!isContinued) this.deps.secrets.forget(this)
    this.#meter.enterBurrow({ isAdopted, isRunning: this.#row.state === 'running' })
    void this.memory.enterBurrow(burrow, { isAdopted })
    void burrow.ended.then((end) => {
      if (end.reason !== 'killed' && end.reason !== 'agent_ended') return
      // No call goes to a dead burrow while its loss is not recorded yet.
      this.#deadBurrow = burrow
      void recordLoss(this, burrow, end)
    })
    const opening = this.deps.network.open(this, burrow).finally(() => {
      if (this.#openingNetwork === opening) this.#openingNetwork = undefined
    })
    this.#openingNetwork = opening
    for (const listener of this.deps.listeners) listener.awake?.(this.#row, { isContinued, burrow })
  }

  leaveBurrow(): void {
    this.#burrow = undefined
  }

  /** Reports what its processes used since the last sample. */
  async sample(): Promise<CpuUse | undefined> {
    const burrow = this.#burrow
    // A burrow that ended meanwhile has no cgroup to read.
    const usage = await burrow?.usage().catch(() => undefined)
    if (burrow === undefined || usage === undefined || this.#burrow !== burrow) return undefined
    await this.memory.observe(burrow, usage)
    return this.#meter.sample(this.#row, usage, this.work.uncalledMs)
  }

  /** Frees the disk space of a snapshot that nothing refers to, without making the caller wait. */
  dropSnapshotLater(id: SnapshotId | undefined): void {
    inBackground(this.deps, dropSnapshot(this.deps, id))
  }

  /** The same for a former head, once the new one is on disk. */
  dropFormerHead(former: SnapshotId, head: SnapshotId): void {
    inBackground(this.deps, dropFormerHead(this.deps, former, head))
  }

  #change(work: () => Promise<void>): Promise<SandboxAnswer> {
    return this.exclusive(async () => {
      requireExists(this)
      await work()
      return this.view()
    })
  }
}
