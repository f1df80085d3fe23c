import { setTimeout as sleep } from 'node:timers/promises'
import { KeyedMutex, retryUntilDone } from '@dormouse/async'
import { type Depot, type HostRecord, type SnapshotRecord, SnapshotRecords } from '@dormouse/cluster'
import { DormouseError, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { SnapshotNeeds } from '@dormouse/engine'
import { dropSnapshot } from '../sandbox/drop-snapshot.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { SnapshotsElsewhere } from '../sandbox/snapshots-elsewhere.ts'
import type { Database } from '../store/database.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import { BUILT_IN_OWNER } from '../templates/built-in-descriptions.ts'
import type { TemplateCatalog } from '../templates/template-catalog.ts'
import type { TemplateRow } from '../templates/template-rows.ts'
import type { Cluster } from './cluster.ts'
import { partsInDepot } from './depot-lists.ts'
import { FetchedSnapshots } from './fetched-snapshots.ts'
import { SharedSnapshotRows } from './shared-snapshot-rows.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'
import { uploadSnapshot } from './upload-snapshot.ts'

export interface SharedSnapshotsOptions {
  readonly cluster: Cluster
  readonly catalog: TemplateCatalog
  readonly depot: Depot
  readonly transfer: SnapshotCarrier
  readonly clusterDb: Database
  readonly stateId: string
  /** How much of fetched snapshots this host keeps. */
  readonly maxBytes: number
  readonly deps: SandboxDependencies
}

const LOOK_MS = 1_000
const RETRY_MS = 2_000
const UPLOAD_WAIT_MS = 20_000
const UPLOAD_LOOK_MS = 250
/** The row of a template may reach this host later than the record of its snapshot. */
const UNUSED_MS = 60_000

/**
 * Snapshots that are the cluster's: those that callers keep, and those of templates. The host that has taken one uploads
 * it and records it; another host fetches it when it is needed there. The record decides: when it is removed, all hosts
 * remove their copies, and the collection of the depot follows.
 */
export class SharedSnapshots implements SnapshotsElsewhere, Disposable {
  readonly #options: SharedSnapshotsOptions
  readonly #rows: SharedSnapshotRows
  readonly #fetched: FetchedSnapshots
  readonly #locks = new KeyedMutex()
  readonly #uploading = new Set<SnapshotId>()
  readonly #unusedSince = new Map<string, number>()
  #turn: Promise<void> = Promise.resolve()
  #records: SnapshotRecords | undefined
  #timer: NodeJS.Timeout | undefined
  #trimming: Promise<void> | undefined
  #isClosed = false

  private constructor(options: SharedSnapshotsOptions) {
    this.#options = options
    this.#rows = new SharedSnapshotRows(options.clusterDb, options.stateId)
    const { deps, maxBytes, cluster } = options
    const isFetched = (id: SnapshotId) => {
      const host = this.#records?.find(id)?.host
      return host !== undefined && host !== cluster.hostId
    }
    this.#fetched = new FetchedSnapshots({ deps, maxBytes, isFetched, locks: this.#locks })
  }

  static async open(options: SharedSnapshotsOptions): Promise<SharedSnapshots> {
    const shared = new SharedSnapshots(options)
    const { snapshots: bucket, key } = options.cluster.connection
    const records = await SnapshotRecords.open(
      {
        ...{ bucket, key },
        onUnreadable: (id, err) =>
          options.deps.log.error({ id, err }, 'the record of a snapshot cannot be read'),
      },
      (id) => shared.#removed(id as SnapshotId),
    )
    shared.#records = records
    // Deleted while this host was away.
    for (const id of shared.#rows.ids()) if (records.find(id) === undefined) shared.#removed(id)
    shared.#timer = setInterval(() => shared.#look(), LOOK_MS).unref()
    shared.#look()
    return shared
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#records?.[Symbol.dispose]()
  }

  /** Lists in the depot that records refer to, none of them older than this call. */
  async readLists(): Promise<string[]> {
    return (await this.#records?.readLists()) ?? []
  }

  /** What hosts need for the snapshots that records refer to. */
  needs(): SnapshotNeeds[] {
    return [...(this.#records?.all() ?? [])].map(([, { needs }]) => needs)
  }

  find(id: string): SnapshotRow | undefined {
    const record = this.#records?.find(id)
    return record?.isKept === true ? rowOf(record) : undefined
  }

  findNamed(sandboxId: SandboxId, name: string): SnapshotRow | undefined {
    return this.list({ sandboxId }, undefined).find((row) => row.name === name)
  }

  list({ sandboxId }: { sandboxId?: string | undefined }, owner: string | undefined): SnapshotRow[] {
    const { snapshots } = this.#options.deps
    return [...(this.#records?.all() ?? [])].flatMap(([id, record]) => {
      const isWanted =
        record.isKept &&
        (owner === undefined || record.owner === owner) &&
        (sandboxId === undefined || record.sandboxId === sandboxId)
      return isWanted && snapshots.get(id) === undefined ? rowOf(record) : []
    })
  }

  /** Why this host cannot use a snapshot that is not here; undefined when it can. */
  problemOf(id: SnapshotId): string | undefined {
    const record = this.#records?.find(id)
    if (this.#options.deps.snapshots.get(id) !== undefined) return undefined
    return record === undefined
      ? 'no host has uploaded it'
      : this.#problemAt(this.#options.cluster.hostId, record.needs)
  }

  recordOf(id: string): SnapshotRecord | undefined {
    return this.#records?.find(id)
  }

  /** What a host would have to fetch to create a sandbox from a snapshot, as far as that is known. */
  arrivingBytes(id: string, host: HostRecord): number {
    const { cluster, deps, transfer } = this.#options
    const record = this.#records?.find(id)
    const isHere = host.id === cluster.hostId && deps.snapshots.get(id) !== undefined
    const isThere = isHere || record?.host === host.id || host.holds?.includes(id) === true
    return record === undefined || isThere ? 0 : transfer.arrivingBytes(record, host)
  }

  async bring(id: SnapshotId): Promise<void> {
    const { deps } = this.#options
    if (deps.snapshots.get(id) !== undefined) return this.#fetched.touch(id)
    if (this.#records?.find(id) !== undefined) await this.#locks.run(id, () => this.#import(id))
  }

  /** The same for a snapshot of a template, which its host may be uploading. */
  async bringTemplate(id: SnapshotId): Promise<void> {
    const { deps } = this.#options
    const until = performance.now() + UPLOAD_WAIT_MS
    while (deps.snapshots.get(id) === undefined && this.#records?.find(id) === undefined) {
      if (performance.now() > until || this.#isClosed) throw notUploaded()
      await sleep(UPLOAD_LOOK_MS)
    }
    await this.bring(id)
  }

  async release(id: SnapshotId): Promise<void> {
    const record = this.#records?.find(id)
    this.#rows.remove(id)
    if (record === undefined) return
    if (this.#templateSnapshots().has(id))
      await this.#records?.change(id, { ...record, isKept: false, name: undefined })
    else await this.#records?.remove(id)
  }

  async #import(id: SnapshotId): Promise<void> {
    const { deps, depot, transfer } = this.#options
    const record = this.#records?.find(id)
    if (record === undefined || deps.snapshots.get(id) !== undefined) return
    this.#requireAble(record.needs)
    const { needs, list } = record
    await transfer.import(id, { needs, parts: await partsInDepot(depot, list), origin: list })
    // Many sandboxes start from it: none of them should wait for pages.
    await transfer.untilArrived(id)
    const snapshot = await deps.engine.getSnapshot(id)
    const { owner, isKept, name: wanted } = record
    deps.db.transaction(() => {
      const taken = wanted === undefined ? undefined : deps.snapshots.findNamed(snapshot.sandboxId, wanted)
      deps.snapshots.put(snapshot, { owner, isKept, name: taken === undefined ? wanted : undefined })
      recordAncestors(deps, snapshot.sandboxId, record.ancestors)
    })
    this.#rows.add(id)
    this.#fetched.touch(id)
    this.#options.cluster.noteHeld(id)
  }

  /** Throws with the hosts that can. */
  #requireAble(needs: SnapshotNeeds): void {
    const { cluster } = this.#options
    const problem = this.#problemAt(cluster.hostId, needs)
    if (problem === undefined) return
    const able = cluster.hosts
      .all()
      .filter(({ id }) => cluster.isAlive(id) && this.#problemAt(id, needs) === undefined)
      .map(({ id }) => id)
    throw new DormouseError('host_unavailable', `This host cannot restore the snapshot: ${problem}.`, {
      hint: able.length > 0 ? `These hosts can: ${able.join(', ')}.` : 'No host of the cluster can.',
      details: { nodes: able },
    })
  }

  #problemAt(hostId: string, needs: SnapshotNeeds): string | undefined {
    const { cluster, transfer } = this.#options
    return transfer.problemOf(needs, cluster.hosts.find(hostId))
  }

  /** Another host does not keep it any more. */
  #removed(id: SnapshotId): void {
    const { deps } = this.#options
    if (!this.#rows.has(id)) return
    this.#rows.remove(id)
    if (deps.snapshots.get(id)?.isKept === true) deps.snapshots.unkeep(id)
    void dropSnapshot(deps, id)
  }

  #look(): void {
    const { deps, cluster } = this.#options
    if (!cluster.isHeld) return
    const ofTemplates = this.#templateSnapshots()
    const kept = deps.snapshots.kept()
    for (const row of kept) this.#update(row)
    for (const id of [...kept.map((row) => row.id), ...ofTemplates]) this.#uploadLater(id)
    this.#removeUnused(ofTemplates)
    this.#trim()
  }

  #trim(): void {
    const { log } = this.#options.deps
    this.#trimming ??= this.#fetched
      .trim()
      .catch((err: unknown) => log.warn({ err }, 'fetched snapshots take more disk than they may'))
      .finally(() => {
        this.#trimming = undefined
      })
  }

  /** A name that it got after it was recorded. */
  #update(row: SnapshotRow): void {
    const record = this.#records?.find(row.id)
    if (record === undefined || (record.isKept && record.name === row.name)) return
    const changed = { ...record, isKept: true, name: row.name, row }
    void this.#records?.change(row.id, changed).catch(() => {})
  }

  #uploadLater(id: SnapshotId): void {
    const { deps } = this.#options
    if (this.#uploading.has(id) || this.#records?.find(id) !== undefined) return
    const isHere = () => deps.snapshots.get(id) !== undefined
    if (!isHere()) return
    this.#uploading.add(id)
    this.#turn = this.#turn.then(async () => {
      await retryUntilDone(() => this.#upload(id), {
        delayMs: RETRY_MS,
        isOver: () => this.#isClosed || !isHere(),
        onFailure: (err) => deps.log.warn({ snapshotId: id, err }, 'a snapshot is not in the depot yet'),
      })
      this.#uploading.delete(id)
    })
  }

  async #upload(id: SnapshotId): Promise<void> {
    const { deps } = this.#options
    const { volumes } = await deps.engine.getSnapshot(id)
    // Volumes stay on their host.
    if (volumes.length > 0) return
    const { list, needs, bytes } = await uploadSnapshot(this.#options, id)
    const row = deps.snapshots.get(id)
    if (row === undefined) return
    const { owner, sandboxId, name, isKept, createdAt } = row
    const ancestors = deps.lineage.ancestorsOf(sandboxId)
    const { hostId: host } = this.#options.cluster
    const shown = { isKept, owner, sandboxId, ancestors, name, createdAt, host, row }
    const record = { list, needs, bytes, ...shown }
    await this.#records?.add(id, record)
    this.#rows.add(id)
    this.#options.cluster.noteHeld(id)
  }

  /** Templates that were deleted or replaced leave records behind. One of the hosts removes them. */
  #removeUnused(ofTemplates: ReadonlySet<string>): void {
    const { cluster } = this.#options
    const [first] = cluster.hosts.all().filter(({ id }) => cluster.isAlive(id))
    if (first?.id !== cluster.hostId) return
    for (const [id, { isKept }] of this.#records?.all() ?? []) {
      if (isKept || ofTemplates.has(id)) {
        this.#unusedSince.delete(id)
        continue
      }
      const since = this.#unusedSince.get(id) ?? performance.now()
      this.#unusedSince.set(id, since)
      if (performance.now() - since > UNUSED_MS) void this.#records?.remove(id).catch(() => {})
    }
  }

  #templateSnapshots(): Set<SnapshotId> {
    return new Set(this.#options.catalog.all().flatMap(snapshotsOf))
  }
}

/** What a sandbox was forked from, and that in turn. */
export function recordAncestors(
  { lineage }: Pick<SandboxDependencies, 'lineage'>,
  sandboxId: SandboxId,
  ancestors: readonly string[],
): void {
  let child = sandboxId
  for (const parent of ancestors) {
    lineage.put(child, parent as SandboxId)
    child = parent as SandboxId
  }
}

function snapshotsOf({ owner, state, snapshotId, filesId }: TemplateRow): SnapshotId[] {
  if (owner === BUILT_IN_OWNER || state !== 'ready') return []
  return [snapshotId, filesId].filter((id) => id !== undefined)
}

function rowOf(record: SnapshotRecord): SnapshotRow {
  const { name, isKept } = record
  return { ...(record.row as SnapshotRow), name, isKept }
}

function notUploaded(): DormouseError {
  return new DormouseError('host_unavailable', 'The host that built the template has not uploaded it yet.', {
    hint: 'Try again, or create the sandbox on that host.',
    details: { retryAfterMs: 1_000 },
  })
}
