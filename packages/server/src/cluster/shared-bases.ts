import { KeyedMutex } from '@dormouse/async'
import { BaseRecords, type ClusterConnection, DAY_MS, type Depot, type HostRecord } from '@dormouse/cluster'
import { DormouseError } from '@dormouse/contracts'
import type { BaseTransfer, SnapshotNeeds } from '@dormouse/engine'
import type { Log } from '../log.ts'
import type { Cluster } from './cluster.ts'
import { partInDepot } from './depot-lists.ts'
import { UnusedBases } from './unused-bases.ts'
import { sizeOf, uploadPart } from './upload-snapshot.ts'

export interface SharedBasesOptions {
  readonly cluster: Pick<Cluster, 'hosts' | 'hostId' | 'isHeld' | 'directory' | 'upkeep'> & {
    readonly connection: Pick<ClusterConnection, 'keys' | 'key'>
  }
  readonly depot: Depot
  readonly bases: BaseTransfer
  /** How long nothing has needed a base before its record is removed. A day unless a test says otherwise. */
  readonly unusedMs?: number
  /** How much this host keeps of what it has fetched and does not need. */
  readonly maxBytes: number
  readonly inUseMs?: number
  readonly log: Log
}

const LOOK_MS = 1_000
/** A host that is alone uploads its bases when it has nothing more urgent to do. */
const ALONE_MS = 10 * 60_000
/** What is noted is compared with the directory and the depot this often, and a fetch that failed is tried again. */
const CHECK_MS = 10 * 60_000
const RETRY_MS = 5 * 60_000
/** Bases that a host fetches before a sandbox needs them. All others are fetched with the first sandbox. */
const AHEAD_MAX = 16
/** Nothing is fetched ahead onto a disk with less free space, as a part of all. */
const AHEAD_FREE = 0.1

/**
 * What snapshots stand on: builds of templates and guest tools, which every host makes for itself. A host puts those of
 * its snapshots into the depot once, and the others fetch them: ahead of need, or with the first sandbox.
 */
export class SharedBases implements Disposable {
  readonly #options: SharedBasesOptions
  readonly #locks = new KeyedMutex()
  /** Bases of snapshots that this host has uploaded, and when it noted them. */
  readonly #noted = new Map<string, number>()
  readonly #here = new Set<string>()
  readonly #failedAt = new Map<string, number>()
  readonly #unusedSince = new Map<string, number>()
  readonly #unused: UnusedBases | undefined
  #records: BaseRecords | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  #checkedAt = Number.NEGATIVE_INFINITY
  #isClosed = false

  private constructor(options: SharedBasesOptions) {
    this.#options = options
    const { maxBytes, inUseMs } = options
    const { fetched } = options.bases
    const isShared = (base: string) => this.#records?.find(base) !== undefined
    const isNeeded = (base: string) => this.#isNeeded(base)
    this.#unused = fetched && new UnusedBases({ fetched, maxBytes, isShared, isNeeded, inUseMs })
  }

  static async open(options: SharedBasesOptions): Promise<SharedBases> {
    const shared = new SharedBases(options)
    const { keys: bucket, key } = options.cluster.connection
    shared.#records = await BaseRecords.open({
      ...{ bucket, key },
      onUnreadable: (base, err) => options.log.error({ base, err }, 'the record of a base cannot be read'),
      // What still needs it is noted again by the next sleep, or check.
      onRemoved: (base) => shared.#noted.delete(base),
    })
    shared.#timer = setInterval(() => {
      shared.#looking ??= shared.#look().finally(() => {
        shared.#looking = undefined
      })
    }, LOOK_MS).unref()
    return shared
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#records?.[Symbol.dispose]()
  }

  /** Whether a host of this kind of processor can fetch a base. */
  has(base: string, arch: string): boolean {
    return this.#records?.find(base)?.arch === arch
  }

  /** What a host would have to fetch of the bases of a snapshot, as far as that is known. */
  lackedBytes(needs: SnapshotNeeds, abilities: HostRecord['abilities']): number {
    const { bases } = this.#options
    const needed = bases.neededBy(needs)
    const held = needed.length === 0 ? [] : bases.heldBy(abilities)
    const lacked = needed.filter((base) => !held.includes(base))
    return lacked.reduce((sum, base) => sum + (this.#records?.find(base)?.bytes ?? 0), 0)
  }

  /** Lists in the depot that records refer to, none of them older than this call. */
  async readLists(): Promise<string[]> {
    return (await this.#records?.readLists()) ?? []
  }

  /** Runs `work`, which imports a snapshot, with all its bases here that the depot has. */
  async withBases<Value>(needs: SnapshotNeeds, work: () => Promise<Value>): Promise<Value> {
    const needed = this.#options.bases.neededBy(needs)
    const bringAndWork = async () => {
      for (const base of needed) await this.#bring(base)
      return await work()
    }
    return this.#unused === undefined ? await bringAndWork() : await this.#unused.using(needed, bringAndWork)
  }

  /** Removes what this host has fetched and needs no more, as far as it takes too much room. */
  async trim(): Promise<void> {
    await this.#unused?.trim((base, take) =>
      this.#locks.run(base, async () => {
        if (await take()) this.#here.delete(base)
      }),
    )
  }

  /** Post: the bases of a snapshot of this host are in the depot, if another host lacks them. Otherwise they follow. */
  async keep(needs: SnapshotNeeds): Promise<void> {
    for (const base of this.#options.bases.neededBy(needs)) {
      this.#note(base)
      if (this.#records?.find(base) === undefined && this.#isLacking(base)) await this.#upload(base)
    }
  }

  /** Removes the records of bases that nothing has needed for long. Only the host that collects the depot does so. */
  async removeUnused(needs: Iterable<SnapshotNeeds>): Promise<void> {
    const { unusedMs = DAY_MS } = this.#options
    const needed = new Set<string>()
    for (const one of needs) for (const base of this.#options.bases.neededBy(one)) needed.add(base)
    for (const [base] of [...(this.#records?.all() ?? [])]) {
      if (needed.has(base)) {
        this.#unusedSince.delete(base)
        continue
      }
      const since = this.#unusedSince.get(base) ?? performance.now()
      this.#unusedSince.set(base, since)
      if (performance.now() - since < unusedMs) continue
      this.#unusedSince.delete(base)
      await this.#records?.remove(base)
    }
  }

  async #look(): Promise<void> {
    if (!this.#options.cluster.isHeld) return
    if (performance.now() - this.#checkedAt > CHECK_MS) {
      this.#checkedAt = performance.now()
      await this.#try('compare bases', () => this.#check())
      await this.#try('remove bases', () => this.trim())
    }
    for (const [base, notedAt] of this.#noted) {
      if (this.#records?.find(base) !== undefined) continue
      if (this.#isLacking(base) || performance.now() - notedAt > ALONE_MS)
        await this.#try(base, () => this.#upload(base))
    }
    await this.#fetchAhead()
  }

  /**
   * Notes the bases of sandboxes that this host owns, and of kept snapshots. Those whose list the depot has lost are
   * uploaded again.
   */
  async #check(): Promise<void> {
    const { cluster, depot, bases } = this.#options
    for (const { entry } of cluster.directory.all())
      if (entry.host === cluster.hostId && entry.replica !== undefined)
        for (const base of bases.neededBy(entry.replica.needs)) this.#note(base)
    const ofKept = new Set(
      [...(cluster.upkeep.snapshotNeeds?.() ?? [])].flatMap((needs) => bases.neededBy(needs)),
    )
    for (const base of ofKept) if (await bases.isHere(base)) this.#note(base)
    for (const base of this.#noted.keys()) {
      const record = this.#records?.find(base)
      if (record !== undefined && (await depot.findList(record.list)) === undefined)
        await this.#upload(base, { isLost: true })
    }
  }

  async #fetchAhead(): Promise<void> {
    const records = [...(this.#records?.all() ?? [])].filter(([, { arch }]) => arch === process.arch)
    for (const [base] of records) {
      if (this.#here.has(base) || this.#unused?.wasRemoved(base) === true) continue
      const ofOthers = records.filter(([one, { host }]) => this.#here.has(one) && host !== this.#self()?.id)
      const room = this.#self()?.room
      const hasRoom = room !== undefined && room.diskFreeBytes > room.diskTotalBytes * AHEAD_FREE
      if (!hasRoom || ofOthers.length >= AHEAD_MAX) return
      await this.#try(base, () => this.#bring(base))
    }
  }

  /** Runs work in the background that nothing waits for. What has failed is not tried again for a while. */
  async #try(what: string, work: () => Promise<void>): Promise<void> {
    const failedAt = this.#failedAt.get(what)
    if (failedAt !== undefined && performance.now() - failedAt < RETRY_MS) return
    try {
      await work()
      this.#failedAt.delete(what)
    } catch (err) {
      if (this.#isClosed) return
      this.#failedAt.set(what, performance.now())
      this.#options.log.warn({ base: what, err }, 'what snapshots stand on could not be shared yet')
    }
  }

  async #bring(base: string): Promise<void> {
    const { bases, depot } = this.#options
    if (this.#here.has(base)) return
    await this.#locks.run(base, async () => {
      if (!(await bases.isHere(base))) {
        const record = this.#records?.find(base)
        // The engine says what is lacking.
        if (record === undefined) return
        await bases.import(base, await partInDepot(depot, base, record.list))
      }
      this.#here.add(base)
    })
  }

  async #upload(base: string, { isLost = false } = {}): Promise<void> {
    const { bases, depot, cluster } = this.#options
    await this.#locks.run(base, async () => {
      // Another call, or another host, has done so.
      if (!isLost && this.#records?.find(base) !== undefined) return
      const begun = await depot.period()
      const { list } = await uploadPart(depot, await bases.export(base))
      const bytes = await sizeOf(depot, { key: base, list })
      // What it relies on may be collected. The next try relies on newer objects.
      if ((await depot.period()) > begun + 1)
        throw new DormouseError('internal', 'the upload took longer than a period')
      const record = { list, arch: process.arch, host: cluster.hostId, uploadedAt: Date.now(), bytes }
      await this.#records?.put(base, record)
    })
  }

  #isNeeded(base: string): boolean {
    const { cluster, bases } = this.#options
    const replicas = [...cluster.directory.all()].flatMap(({ entry }) => entry.replica ?? [])
    const needs = [...replicas.map((replica) => replica.needs), ...(cluster.upkeep.snapshotNeeds?.() ?? [])]
    return needs.some((one) => bases.neededBy(one).includes(base))
  }

  #note(base: string): void {
    if (!this.#noted.has(base)) this.#noted.set(base, performance.now())
  }

  /** Whether a host would fetch it. */
  #isLacking(base: string): boolean {
    const { cluster, bases } = this.#options
    const lacks = ({ id, arch, fetchesBases, abilities }: HostRecord) =>
      id !== cluster.hostId &&
      fetchesBases === true &&
      arch === process.arch &&
      cluster.hosts.stateOf(id) === 'alive' &&
      !bases.heldBy(abilities).includes(base)
    return cluster.hosts.all().some(lacks)
  }

  #self(): HostRecord | undefined {
    const { hosts, hostId } = this.#options.cluster
    return hosts.find(hostId)
  }
}
