import { withTimeout } from '@dormouse/async'
import { DormouseError, newSandboxId, type SandboxId } from '@dormouse/contracts'
import type { Log } from '../log.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { CreateSandbox, SandboxRow } from '../store/sandbox-rows.ts'
import { Replica } from './replica.ts'
import type { ServiceLog } from './service-log.ts'
import type {
  ReadyState,
  ReplicaRow,
  ServiceRow,
  ServiceRows,
  ServiceSettings,
  VersionRow,
} from './service-rows.ts'
import type { ServiceSessions } from './service-sessions.ts'

/** A request waits this long for a replica that starts or restarts. */
const WAIT_MS = 30_000
/** Of a replica from a snapshot in which the program is ready. */
const ANSWER_MS = 15_000
/** A request waits this long for a program that does not listen: it is ending, or starting by itself. */
const LISTEN_MS = 10_000
/** A replica that gets no new requests is deleted after this time, whatever its last ones do. */
const DRAIN_MS = 5 * 60_000
/** A session counts as used for this long after its last request. */
const SESSION_MS = 5 * 60_000

export interface LiveServiceOptions {
  readonly row: ServiceRow
  readonly rows: ServiceRows
  readonly sessions: ServiceSessions
  readonly serviceLog: ServiceLog
  readonly sandboxes: Pick<SandboxCalls, 'create' | 'get'>
  readonly requestOf: (service: ServiceRow, version: VersionRow) => CreateSandbox
  /** Called when a sandbox becomes a replica, and when it is none any more. */
  readonly onReplica: (id: SandboxId, isReplica: boolean) => void
  readonly nowMs: () => number
  readonly log: Log
}

/** A replica that serves one request, until it is released. */
export interface Lease {
  readonly sandbox: SandboxHandle
  readonly port: number
  /** The client of this request reaches the same replica with this session. */
  pin(session: string): void
  /** Resolves when the program listens. Throws `port_closed`. */
  untilListens(signal: AbortSignal): Promise<void>
  release(): void
}

/** One service: its versions and replicas, and which of them gets a request. */
export class LiveService {
  readonly #options: LiveServiceOptions
  /** Oldest first. */
  readonly #replicas = new Map<SandboxId, Replica>()
  readonly #holds = new Map<SandboxId, Disposable>()
  readonly #drainedAtMs = new Map<Replica, number>()
  #row: ServiceRow
  #versions: readonly VersionRow[]
  #starting = 0
  #first: Promise<Replica> | undefined
  #isStopped = false

  constructor(options: LiveServiceOptions) {
    this.#options = options
    this.#row = options.row
    this.#versions = options.rows.versions(options.row.id)
  }

  get row(): ServiceRow {
    return this.#row
  }

  /** Newest first. */
  get versions(): readonly VersionRow[] {
    return this.#versions
  }

  get log(): ServiceLog {
    return this.#options.serviceLog
  }

  get current(): VersionRow | undefined {
    return this.#versions.find(({ version }) => version === this.#row.current)
  }

  get replicas(): readonly Replica[] {
    return [...this.#replicas.values()]
  }

  put(row: ServiceRow): void {
    this.#options.rows.put(row)
    this.#row = row
  }

  putVersion(row: VersionRow): void {
    this.#options.rows.putVersion(row)
    this.#versions = [row, ...this.#versions.filter(({ version }) => version !== row.version)].sort(
      (a, b) => b.version - a.version,
    )
  }

  forgetVersion(row: VersionRow): void {
    this.#options.rows.deleteVersion(row)
    this.#versions = this.#versions.filter(({ version }) => version !== row.version)
  }

  /** A replica for one request. Wakes nothing by itself: the connection does. */
  async take(session: string | undefined, signal?: AbortSignal): Promise<Lease> {
    const { sessions } = this.#options
    const pinned = session === undefined ? undefined : sessions.find(session)
    const known = pinned === undefined ? undefined : this.#replicas.get(pinned)
    const replica = known ?? this.#choose() ?? (await this.#startFirst())
    replica.requests += 1
    let isReleased = false
    const release = () => {
      if (isReleased) return
      isReleased = true
      replica.requests -= 1
      replica.usedAtMs = performance.now()
      if (this.#replicas.has(replica.id)) replica.followNow()
    }
    try {
      await withTimeout(replica.untilReady(signal), WAIT_MS, () =>
        unavailable(`"${this.#row.name}" is starting.`),
      )
    } catch (error) {
      release()
      throw error
    }
    return {
      ...{ sandbox: replica.sandbox, port: replica.port, release },
      pin: (id) => sessions.pin(id, replica.id),
      untilListens: (gone) => replica.untilListens({ timeoutMs: LISTEN_MS, signal: gone }),
    }
  }

  /** The first replica that has room, so that the last ones become idle and are deleted. */
  #choose(): Replica | undefined {
    const { concurrency, max } = this.#row.settings.replicas
    const serving = this.#serving()
    const total = serving.reduce((sum, { requests }) => sum + requests, 1)
    while (serving.length > 0 && total > concurrency * (serving.length + this.#starting)) {
      if (serving.length + this.#starting >= max) break
      this.#startAnother()
    }
    const withRoom = serving.filter(({ requests, state }) => requests < concurrency && state === 'ready')
    return (
      withRoom.find((replica) => replica.isAwake) ??
      withRoom[0] ??
      serving.toSorted((a, b) => a.requests - b.requests)[0]
    )
  }

  #serving(): Replica[] {
    return this.replicas.filter(
      ({ version, state }) => version === this.#row.current && state !== 'draining' && state !== 'starting',
    )
  }

  #startFirst(): Promise<Replica> {
    const { current } = this
    if (current?.ready === undefined)
      throw unavailable(
        `"${this.#row.name}" has no version that can serve yet.`,
        '`dormouse service show NAME` shows its versions, and why they failed.',
      )
    this.#first ??= this.startReplica(current, current.ready).finally(() => {
      this.#first = undefined
    })
    return this.#first
  }

  /** In the background: the requests that made it necessary do not wait for it. */
  #startAnother(): void {
    const { current } = this
    if (current?.ready === undefined) return
    void this.startReplica(current, current.ready).catch((error: unknown) => {
      this.#options.log.warn({ service: this.#row.id, err: error }, 'a replica could not be started')
    })
  }

  /** Starts a replica from the snapshot of a version. Resolves when it answers. */
  async startReplica(version: VersionRow, ready: ReadyState): Promise<Replica> {
    this.#starting += 1
    let replica: Replica | undefined
    try {
      replica = await this.addReplica(version, ready)
      await replica.untilAnswers({ timeoutMs: ANSWER_MS, health: this.#row.settings.health })
      replica.setReady()
      return replica
    } catch (error) {
      if (replica !== undefined) await this.remove(replica)
      throw error
    } finally {
      this.#starting -= 1
    }
  }

  /** Creates the sandbox of a replica. Its row comes first, so that a crash leaves no sandbox without one. */
  async addReplica(version: VersionRow, ready: ReadyState | undefined): Promise<Replica> {
    const { rows, sandboxes, requestOf, nowMs } = this.#options
    if (this.#isStopped) throw unavailable(`"${this.#row.name}" is being deleted, or the server ends.`)
    const row: ReplicaRow = {
      ...{ sandboxId: newSandboxId(), serviceId: this.#row.id, version: version.version },
      ...{ isReady: false, restarts: 0, createdAt: nowMs() },
      processIds: ready?.program === undefined ? [] : [ready.program.processId],
    }
    rows.putReplica(row)
    try {
      const caller = { keyId: this.#row.owner, isAdmin: false }
      const request = { ...requestOf(this.#row, version), snapshotId: ready?.snapshotId }
      const { sandbox } = await sandboxes.create(request, caller, undefined, { id: row.sandboxId })
      return this.#keep(row, sandbox, version, ready)
    } catch (error) {
      rows.deleteReplica(row.sandboxId)
      throw error
    }
  }

  /** The program of the first replica of a version has started. */
  async adopt(replica: Replica, version: VersionRow, ready: ReadyState): Promise<Replica> {
    const row = this.#options.rows.replicas(this.#row.id).find(({ sandboxId }) => sandboxId === replica.id)
    if (row === undefined) throw unavailable('The replica was deleted.')
    const processIds = ready.program === undefined ? [] : [ready.program.processId]
    const started = this.#keep({ ...row, processIds }, replica.sandbox, version, { ...ready, eventSeq: -1 })
    started.setReady()
    return started
  }

  #keep(
    row: ReplicaRow,
    sandbox: SandboxHandle,
    version: VersionRow,
    ready: ReadyState | undefined,
  ): Replica {
    const replica = new Replica({
      ...{ row, sandbox, port: version.plan.port, program: ready?.program },
      firstEventSeq: ready?.eventSeq ?? -1,
      rows: this.#options.rows,
      log: this.log,
      settings: () => this.#row.settings,
      onDead: (dead) => void this.#replace(dead),
    })
    this.#replicas.set(row.sandboxId, replica)
    this.#options.onReplica(row.sandboxId, true)
    replica.followSoon()
    return replica
  }

  /** The program came with the template: only a new replica has it again. */
  async #replace(dead: Replica): Promise<void> {
    await this.remove(dead)
    if (!this.#isStopped) this.#startAnother()
  }

  /** Sends new requests to this version. Replicas of other versions finish what they have. */
  switchTo({ version }: VersionRow, settings: ServiceSettings = this.#row.settings): void {
    this.put({ ...this.#row, current: version, settings })
    for (const replica of this.replicas) if (replica.version !== version) this.#drain(replica)
    this.keepMin()
  }

  #drain(replica: Replica): void {
    if (replica.state === 'starting' || replica.state === 'draining') return
    replica.drain()
    this.#drainedAtMs.set(replica, performance.now())
  }

  /** Replicas go by the settings again, after a change. */
  followSettings(): void {
    for (const replica of this.replicas) replica.restartIfFailed()
    this.keepMin()
  }

  /** Keeps as many replicas awake as the settings say. */
  keepMin(): void {
    const { min } = this.#row.settings.replicas
    const serving = this.#serving()
    for (const [id, hold] of this.#holds)
      if (!serving.slice(0, min).some((replica) => replica.id === id)) {
        hold[Symbol.dispose]()
        this.#holds.delete(id)
      }
    for (const { id, sandbox } of serving.slice(0, min)) {
      if (!this.#holds.has(id)) this.#holds.set(id, sandbox.hold('a replica that stays awake'))
      void sandbox.resume('port').catch((error: unknown) => {
        this.#options.log.warn({ sandboxId: id, err: error }, 'a replica could not be woken')
      })
    }
    for (let missing = min - serving.length - this.#starting; missing > 0; missing -= 1) this.#startAnother()
  }

  /** Deletes replicas that are not needed any more. */
  async sweep(): Promise<void> {
    const { min, idleMs } = this.#row.settings.replicas
    const now = performance.now()
    const spare = this.#serving().slice(Math.max(1, min))
    const idle = spare.filter(({ requests, usedAtMs }) => requests === 0 && now - usedAtMs > idleMs)
    const drained = [...this.#drainedAtMs].flatMap(([replica, atMs]) =>
      replica.requests === 0 || now - atMs > DRAIN_MS ? replica : [],
    )
    const mustGo = (replica: Replica) => now - (this.#drainedAtMs.get(replica) ?? now) > DRAIN_MS
    for (const replica of [...idle, ...drained])
      if (mustGo(replica) || !this.#hasSession(replica)) await this.remove(replica)
    this.keepMin()
  }

  #hasSession({ id }: Replica): boolean {
    const usedAtMs = this.#options.sessions.lastUseOf(id)
    return usedAtMs !== undefined && this.#options.nowMs() - usedAtMs < SESSION_MS
  }

  async check(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.check()))
  }

  /** A sandbox got another burrow. */
  awake({ id }: SandboxRow): void {
    this.#replicas.get(id)?.followSoon()
  }

  /** Its sandbox is gone, or will be. */
  forget(id: SandboxId): void {
    const replica = this.#replicas.get(id)
    if (replica === undefined) return
    replica.stop()
    this.#replicas.delete(id)
    this.#options.onReplica(id, false)
    this.#drainedAtMs.delete(replica)
    this.#holds.get(id)?.[Symbol.dispose]()
    this.#holds.delete(id)
    this.#options.rows.deleteReplica(id)
    this.#options.sessions.forgetReplica(id)
  }

  /** Deletes a replica. A failure leaves its row: the next start tries again. */
  async remove(replica: Replica): Promise<void> {
    replica.drain()
    try {
      await replica.sandbox.delete()
      this.forget(replica.id)
    } catch (error) {
      this.#options.log.warn({ sandboxId: replica.id, err: error }, 'a replica could not be deleted')
    }
  }

  /** Finds the replicas that an earlier server made. Those that were not ready are deleted. */
  async open(): Promise<void> {
    const { rows, sandboxes } = this.#options
    for (const row of rows.replicas(this.#row.id)) {
      const sandbox = findSandbox(sandboxes, row.sandboxId)
      const version = this.#versions.find((other) => other.version === row.version)
      if (sandbox === undefined) rows.deleteReplica(row.sandboxId)
      else if (version?.ready === undefined || !row.isReady) {
        await sandbox.delete()
        rows.deleteReplica(row.sandboxId)
      } else {
        const replica = this.#keep(row, sandbox, version, version.ready)
        if (row.version !== this.#row.current) this.#drain(replica)
      }
    }
    this.keepMin()
  }

  stop(): void {
    this.#isStopped = true
    for (const replica of this.replicas) replica.stop()
    for (const hold of this.#holds.values()) hold[Symbol.dispose]()
    this.#holds.clear()
    this.log[Symbol.dispose]()
  }
}

function findSandbox(sandboxes: Pick<SandboxCalls, 'get'>, id: SandboxId): SandboxHandle | undefined {
  try {
    return sandboxes.get(id, { keyId: 'server', isAdmin: true })
  } catch {
    return undefined
  }
}

function unavailable(message: string, hint?: string): DormouseError {
  return new DormouseError('service_unavailable', message, {
    ...(hint !== undefined && { hint }),
    details: { retryAfterMs: 1_000 },
  })
}
