import { hasErrorCode, isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { Arrivals } from '../arrival/arrivals.ts'
import type { BurrowHost } from '../burrow/burrow-host.ts'
import { findRecord } from '../burrow/burrow-record.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { memoryPlace } from '../burrow/memory-place.ts'
import type { Criu } from '../criu/find-criu.ts'
import { FileCache } from '../host/file-cache.ts'
import type { SnapshotPaths } from '../host/layout.ts'
import { ReadyPageWorker } from '../image/ready-page-worker.ts'
import { ImageThreads } from '../image-thread/image-threads.ts'
import { removeUnpublished } from '../storage/generation.ts'
import { LayerCollector } from '../storage/layer-collector.ts'
import type { Manifest } from '../storage/manifest.ts'
import { removeOldPulls } from '../storage/pulls-directory.ts'
import { SnapshotStore } from '../storage/snapshot-store.ts'
import { UnsyncedSnapshots } from '../storage/unsynced-snapshots.ts'
import { VerifiedSnapshots } from '../storage/verify-snapshot.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { type DumpHost, removeDumpCgroups } from './dump-process.ts'
import { Dumper } from './dumper.ts'
import { findLayersOfBurrows } from './layers-of-burrows.ts'
import { Leftovers } from './leftovers.ts'
import { Reserve } from './reserve.ts'
import type { SnapshotHost } from './snapshot-host.ts'

/** Sandboxes that wake often, and parents of forks; a snapshot beyond this is only read again. */
const CACHED_SNAPSHOTS = 256

/** A collection reads every manifest. After a start, clients that waited for the server come first. */
const COLLECT_AFTER_START_MS = 3_000

export interface SnapshotEngineOptions {
  readonly host: BurrowHost
  readonly criu: Criu
  readonly dataDir: string
  /** What a burrow that boots sees as /.dormouse. */
  readonly toolsDir: string
}

export interface FoundSnapshot {
  readonly paths: SnapshotPaths
  readonly manifest: Manifest
}

/**
 * What all operations on snapshots share. The operations are functions beside this class: `createFromTemplate`,
 * `saveBurrow`, `restoreSnapshot`, `forkBurrow`, `improveStored` and the like.
 */
export class SnapshotEngine implements AsyncDisposable {
  readonly host: SnapshotHost
  readonly dataDir: string
  readonly toolsDir: string
  readonly store: SnapshotStore
  readonly dumper: Dumper
  readonly collector: LayerCollector
  readonly leftovers: Leftovers
  readonly reserve: Reserve
  /** Whether upkeep may fold pages. A cluster says no while a host could not restore them. */
  mayFold: () => boolean = () => true
  readonly #dumpHost: DumpHost
  readonly #found = new FileCache<FoundSnapshot>(CACHED_SNAPSHOTS)

  constructor({ host, criu, dataDir, toolsDir }: SnapshotEngineOptions) {
    const { layout, hierarchies, failures } = host
    const verified = new VerifiedSnapshots()
    const unsynced = new UnsyncedSnapshots(layout, failures)
    const arrivals = new Arrivals({
      ...{ failures, snapshotsDir: layout.snapshotsDir, rights: { owner: UID_BASE, mode: 0o400 } },
      burrowsDir: layout.burrowsDir,
      findBurrow: async (id) => {
        const paths = layout.burrow(id)
        return { parent: (await findRecord(paths.record))?.parent, place: memoryPlace(paths) }
      },
    })
    const imageThreads = new ImageThreads()
    const unfolder = new ReadyPageWorker()
    this.host = { ...host, verified, unsynced, arrivals, imageThreads, unfolder }
    this.dataDir = dataDir
    this.toolsDir = toolsDir
    this.#dumpHost = { hierarchies, cgroupName: layout.cgroupName, failures, ownCgroups: new Set() }
    this.dumper = new Dumper(criu, this.#dumpHost)
    this.store = new SnapshotStore(layout, verified, () => findLayersOfBurrows(layout))
    this.collector = new LayerCollector(this.store, failures)
    this.leftovers = new Leftovers(failures)
    this.reserve = new Reserve(this.host, (work) => this.afterCollecting(work))
  }

  /** A snapshot as its manifest describes it. A manifest that has not changed is not read again. */
  find(id: SnapshotId): Promise<FoundSnapshot> {
    if (!isSnapshotId(id)) return this.store.get(id)
    return this.#found.get(this.host.layout.snapshot(id).manifest, () => this.store.get(id))
  }

  /** Runs work while no layer is being collected, not even by a collection that has begun before. */
  afterCollecting<Value>(work: () => Promise<Value>): Promise<Value> {
    return this.collector.withoutCollecting(async () => {
      await this.collector.untilCollected()
      return work()
    })
  }

  /** Destroys a burrow that is not needed, now or in the background. Never throws. */
  async destroyBurrow(burrow: LinuxBurrow): Promise<void> {
    await burrow.destroy().catch((error: unknown) => this.leftovers.destroy(burrow, error))
  }

  /**
   * Writes the snapshots of forks to the disk that the last server did not get to. Removes and returns those that an
   * earlier boot did not get to: the machine stopped first, and their content cannot be trusted.
   */
  async removeUndone(): Promise<SnapshotId[]> {
    const { unsynced } = this.host
    const undone = await unsynced.settle()
    for (const id of undone) {
      await this.store.delete(id).catch((error: unknown) => {
        if (!hasErrorCode(error, 'not_found')) throw error
      })
      await unsynced.forget(id)
    }
    return undone
  }

  /** Removes what an earlier server left; never throws. Pre: no other engine uses the state directory. */
  async removeLeftovers(): Promise<void> {
    const { layout, failures } = this.host
    const report = (error: unknown) =>
      failures.report('collection', error, {}, 'what an earlier server left was not removed')
    if (!this.collector.isHeld) {
      await removeUnpublished(layout).catch(report)
      await this.store.removeUnfinished().catch(report)
    }
    await removeOldPulls(layout.pullsDir).catch(report)
    this.collector.collectAfter(COLLECT_AFTER_START_MS)
    await removeDumpCgroups(this.#dumpHost).catch(report)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { unsynced, arrivals, unfolder } = this.host
    const parts = [this.dumper, this.reserve, this.leftovers, this.collector, unsynced, arrivals, unfolder]
    await Promise.all(parts.map((part) => part[Symbol.asyncDispose]()))
    await this.host.imageThreads[Symbol.asyncDispose]()
  }
}
