import { DormouseError, hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { NetworkReportAnswer, SandboxAnswer, SnapshotAnswer, WhyAnswer } from '@dormouse/contracts/http'
import type { Burrow, BurrowUsage, DiskUse, Guest, Snapshot } from '@dormouse/engine'
import { isSilent } from '@dormouse/guest'
import type { LedgerEntry } from '../store/ledger-rows.ts'
import type { Page } from '../store/page.ts'
import type { SandboxLimits, SandboxPolicy, Tier } from '../store/sandbox-rows.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import { gone, type SandboxBody } from './sandbox-body.ts'
import type { MemoryView, Sandbox, StandbyCause, UseOptions, WakeCause } from './service.ts'
import { snapshotView } from './snapshot-view.ts'
import { change } from './transitions/change.ts'
import { finish } from './transitions/finish.ts'
import { type Fork, fork } from './transitions/fork.ts'
import { losing } from './transitions/lose.ts'
import { remove } from './transitions/remove.ts'
import { rollback } from './transitions/rollback.ts'
import { keepSnapshot } from './transitions/snapshot.ts'
import { standby } from './transitions/standby.ts'
import { wake } from './transitions/wake.ts'
import { explainWhy } from './why.ts'

export interface Family {
  /** Makes bodies that a fork has brought forth known to the rest of the server. */
  welcome(children: readonly SandboxBody[]): readonly SandboxAnswer[]
  forget(body: SandboxBody): void
  /** Throws what a quota of the owner forbids: more sandboxes, or one more that runs. What is held is counted until it is let go. */
  holdRoomFor(body: SandboxBody, count: number): Disposable
  requireRoomToRun(body: SandboxBody): void
  requireMoreMemory(body: SandboxBody, memoryBytes: number): void
  /** Throws `limit_reached` when one of these limits is above a ceiling. */
  checkCeilings(body: SandboxBody, limits: Partial<SandboxLimits>): void
  requireRoomOnDisk(body: SandboxBody): void
  /** Throws `name_taken` when another sandbox of the owner has it. */
  requireName(body: SandboxBody, name: string): void
}

export class LiveSandbox implements Sandbox {
  readonly body: SandboxBody
  readonly #family: Family
  #waking: Promise<void> | undefined

  constructor(body: SandboxBody, family: Family) {
    this.body = body
    this.#family = family
    body.onDeath = (burrow, end) => {
      void body.turns
        .exclusive(async () => {
          body.debts.add({ pay: losing(body, burrow, end) })
          await this.#payDebts()
        })
        .catch((error: unknown) => {
          body.parts.log.error({ sandboxId: body.id, err: error }, 'the end of a burrow was not recorded')
        })
    }
  }

  get id() {
    return this.body.id
  }

  view(): SandboxAnswer {
    return this.body.view()
  }

  async use<Value>(options: UseOptions, work: (guest: Guest) => Promise<Value>): Promise<Value> {
    using _work = this.body.work.begin('call', options.what)
    for (;;) {
      if (this.body.runningBurrow() === undefined) await this.#awake(options.cause, options.signal)
      const entered = this.body.turns.shared(options.signal)
      using _turn = entered instanceof Promise ? await entered : entered
      const burrow = this.body.runningBurrow()
      // It may have gone to sleep again while this waited for its turn.
      if (burrow === undefined) continue
      const preparing = this.body.preparing(burrow)
      if (preparing !== undefined) await preparing
      return await work(burrow.guest)
    }
  }

  async *attach<Item>(
    options: UseOptions & {
      kind?: 'run' | 'stream' | 'connection'
      /** false: waits until somebody else wakes it. */
      wakes?: boolean
      wakesUntilBegun?: boolean
    },
    open: (guest: Guest) => AsyncIterable<Item>,
  ): AsyncGenerator<Item> {
    using _work = this.body.work.begin(options.kind ?? 'stream', options.what)
    let mayWake = options.wakes !== false
    for (let failures = 0; ; failures += 1) {
      // Somebody may put it to sleep between a wake and the first word.
      while (mayWake && this.body.runningBurrow() === undefined)
        await this.#awake(options.cause, options.signal)
      const burrow = await this.body.nextBurrow(options.signal)
      const preparing = this.body.preparing(burrow)
      if (preparing !== undefined) await preparing
      mayWake &&= options.wakesUntilBegun === true
      try {
        for await (const item of open(burrow.guest)) {
          failures = 0
          mayWake = false
          yield item
        }
        return
      } catch (error) {
        // One that says nothing would keep each attempt waiting as long.
        if (!isCutOff(error) || isSilent(error) || options.signal?.aborted || failures === ATTEMPTS)
          throw error
      }
      await this.#settled(burrow, options.signal)
    }
  }

  /** A connection breaks before it is known why: waits for the change that is under way, or for the news of the burrow's end. */
  async #settled(burrow: Burrow, signal: AbortSignal | undefined): Promise<void> {
    if (!this.body.turns.isChanging) {
      const patience = new Promise((resolve) => setTimeout(resolve, NEWS_MS).unref())
      await Promise.race([burrow.ended, patience])
    }
    const turn = await this.body.turns.shared(signal)
    turn.release()
  }

  async #awake(cause: WakeCause, signal?: AbortSignal): Promise<void> {
    // All who come meanwhile share it; nobody's giving up ends it for the others.
    this.#waking ??= this.#alone(async () => {
      if (this.body.row.state === 'standby') this.#family.requireRoomToRun(this.body)
      await wake(this.body, cause)
    }).finally(() => {
      this.#waking = undefined
    })
    const waking = this.#waking
    if (signal === undefined) return waking
    await abortable(waking, signal)
  }

  hold(what: string, untilMs?: number, kind: 'hold' | 'connection' = 'hold'): Disposable {
    const work = this.body.work.begin(kind, what)
    if (untilMs === undefined) return work
    const timer = setTimeout(() => work[Symbol.dispose](), untilMs).unref()
    return {
      [Symbol.dispose]: () => {
        clearTimeout(timer)
        work[Symbol.dispose]()
      },
    }
  }

  async usage(): Promise<BurrowUsage | undefined> {
    return this.body.burrow?.usage()
  }

  async memory(): Promise<MemoryView | undefined> {
    const { burrow, parts } = this.body
    return burrow === undefined ? undefined : parts.memory.of(burrow)
  }

  async standby({ tier, cause }: { tier: Tier; cause: StandbyCause }): Promise<SandboxAnswer> {
    return this.#change(async () => {
      // Work may have come while this waited for its turn.
      if (cause === 'idle' && (this.body.work.isBusy || this.body.row.state !== 'running')) return
      await standby(this.body, { tier, cause })
    })
  }

  /** It has written more than it may: asleep it can do no more harm. */
  async sleepForDisk({ bytes, files }: DiskUse): Promise<void> {
    await this.#change(async () => {
      const { state, limits } = this.body.row
      if (state !== 'running' || (bytes <= limits.diskBytes && files <= limits.files)) return
      await standby(this.body, { tier: 'stored', cause: 'disk' })
      this.body.write({ change: { diskBytes: bytes, diskFiles: files } })
    })
  }

  /** It fills the disk of the host, or a volume that is full: asleep it does not. */
  async sleepForHost(): Promise<void> {
    await this.#change(async () => {
      if (this.body.row.state === 'running') await standby(this.body, { tier: 'stored', cause: 'disk' })
    })
  }

  /** It writes too much and cannot be saved: its processes end, its files are kept. */
  async endForDisk(use?: DiskUse): Promise<void> {
    await this.#change(async () => {
      const { burrow, row } = this.body
      if (burrow === undefined || row.state !== 'running') return
      await losing(this.body, burrow, { reason: 'killed' })()
      if (use !== undefined && !this.body.isDeleted)
        this.body.write({ change: { diskBytes: use.bytes, diskFiles: use.files } })
    })
  }

  async resume(cause: WakeCause): Promise<SandboxAnswer> {
    while (this.body.runningBurrow() === undefined) await this.#awake(cause)
    this.body.work.touch()
    return this.view()
  }

  async fork(request: Fork): Promise<readonly SandboxAnswer[]> {
    using _work = this.body.work.begin('call', 'fork')
    return this.#alone(async () => {
      this.#requireLife()
      using _room = this.#family.holdRoomFor(this.body, request.count)
      return this.#family.welcome(await fork(this.body, request))
    }, request.signal)
  }

  async snapshot(options: { name: string | undefined; kind: 'full' | 'files' }): Promise<SnapshotAnswer> {
    return this.#alone(async () => {
      this.#requireLife()
      this.#family.requireRoomOnDisk(this.body)
      // What never slept and has lost its processes has nothing on disk but its template.
      const { state, head } = this.body.row
      if (state === 'standby' && (head === undefined || options.kind === 'files')) {
        this.#family.requireRoomToRun(this.body)
        await wake(this.body, 'resume')
      }
      return snapshotView(this.body.parts, await keepSnapshot(this.body, options))
    })
  }

  async rollback(id: SnapshotId): Promise<SandboxAnswer> {
    return this.#change(async () => rollback(this.body, this.#snapshotOfMine(id)))
  }

  async update({
    limits,
    ...policy
  }: Partial<SandboxPolicy> & { limits?: Partial<SandboxLimits> }): Promise<SandboxAnswer> {
    return this.#change(async () => {
      const { row, parts } = this.body
      const whole = limits === undefined ? undefined : { limits: { ...row.limits, ...limits } }
      if (limits !== undefined) this.#family.checkCeilings(this.body, raised(limits, row.limits))
      // What sleeps is asked when it wakes.
      if (whole !== undefined && row.state === 'running')
        this.#family.requireMoreMemory(this.body, whole.limits.memoryBytes - row.limits.memoryBytes)
      if (policy.secrets !== undefined) parts.secrets.require(policy.secrets, row)
      if (policy.network !== undefined) parts.network.check(policy.network)
      if (policy.name !== undefined) this.#family.requireName(this.body, policy.name)
      const detail = describeChange(policy, limits !== undefined)
      await change(this.body, { ...policy, ...whole }, { event: 'changed', cause: 'asked', detail })
      this.body.work.touch()
    })
  }

  network(): NetworkReportAnswer {
    return { ...this.view().network, ...this.body.parts.network.report(this.id) }
  }

  async delete(): Promise<void> {
    // Calls into it must not make it wait: they end with its processes.
    const calls = setTimeout(() => void this.body.burrow?.destroy().catch(() => {}), DELETE_PATIENCE_MS)
    try {
      await this.body.turns.exclusive(async () => {
        if (!this.body.isRemoved) await remove(this.body)
      })
    } finally {
      clearTimeout(calls)
    }
    this.#family.forget(this.body)
  }

  /** Saves it and ends it: nothing is left but the snapshot, which goes at the next start unless somebody refers to it. */
  async finish(kind: Snapshot['kind']): Promise<Snapshot> {
    const snapshot = await this.#alone(async () => {
      this.#requireLife()
      return finish(this.body, kind)
    })
    this.#family.forget(this.body)
    return snapshot
  }

  why(): Promise<WhyAnswer> {
    return Promise.resolve(explainWhy(this.body))
  }

  ledger(options: { after?: number; limit: number }): Page<LedgerEntry> {
    return this.body.parts.ledger.list(this.body.id, options)
  }

  async #change(work: () => Promise<void>): Promise<SandboxAnswer> {
    return this.#alone(async () => {
      this.#requireLife()
      await work()
      return this.view()
    })
  }

  /** Writes down what is owed, if anything is. */
  async settle(): Promise<void> {
    await this.#alone(async () => {})
  }

  /** Nothing is done to a sandbox before its row says what has become of it. */
  #alone<Value>(work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    return this.body.turns.exclusive(async () => {
      await this.#payDebts()
      return work()
    }, signal)
  }

  async #payDebts(): Promise<void> {
    if (this.body.debts.isEmpty) return
    await this.body.debts.pay()
    if (this.body.isDeleted) this.#family.forget(this.body)
  }

  #requireLife(): void {
    if (this.body.isDeleted) throw gone(this.id)
  }

  /** Its own, or one of a sandbox that it was forked from: others have nothing in common with it. */
  #snapshotOfMine(id: SnapshotId): SnapshotRow {
    const { row, parts } = this.body
    const snapshot = parts.snapshots.get(id)
    if (snapshot === undefined || snapshot.owner !== row.owner)
      throw new DormouseError('not_found', `There is no snapshot ${id}.`)
    const isMine = snapshot.sandboxId === row.id || snapshot.sandboxId === row.forkedFrom
    if (!isMine)
      throw new DormouseError('conflict', `Snapshot ${id} is of another sandbox.`, {
        hint: 'Make a template of it, and create a sandbox from that.',
      })
    return snapshot
  }
}

/** How often something that breaks at once is tried in a row. */
const ATTEMPTS = 4
const NEWS_MS = 200
/** Of a ledger entry: a list of hosts can be long. */
const DETAIL_MAX_CHARACTERS = 1_000
/** Calls that were under way get this long to end by themselves. */
const DELETE_PATIENCE_MS = 1_000

/** Those that grow: what a sandbox has it may keep, whatever its ceilings are now. */
function raised(limits: Partial<SandboxLimits>, before: SandboxLimits): Partial<SandboxLimits> {
  const grown = Object.entries(limits).filter(([name, value]) => value > before[name as keyof SandboxLimits])
  return Object.fromEntries(grown)
}

/** What has changed; of what it may reach, to what. */
function describeChange({ network, ...policy }: Partial<SandboxPolicy>, hasLimits: boolean): string {
  const reach = network === undefined ? [] : [`network: ${[network.mode, ...network.allow].join(' ')}`]
  const words = [...Object.keys(policy), ...(hasLimits ? ['limits'] : []), ...reach]
  return cutText(words.join(', '), DETAIL_MAX_CHARACTERS)
}

function cutText(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`
}

function isCutOff(error: unknown): boolean {
  return hasErrorCode(error, 'agent_unreachable') || hasErrorCode(error, 'burrow_ended')
}

function abortable(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new DormouseError('cancelled', 'The caller gave up waiting for the sandbox.'))
    if (signal.aborted) return giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}
