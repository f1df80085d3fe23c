import { existsSync } from 'node:fs'
import {
  DormouseError,
  type Isolation,
  parseInput,
  type SnapshotId,
  type VolumeId,
} from '@dormouse/contracts'
import type {
  AdoptedBurrows,
  Burrow,
  CheckPartOptions,
  CreateBurrow,
  Engine,
  EngineCapabilities,
  EngineFailureKind,
  ForkedBurrow,
  ForkOptions,
  ImportedImage,
  ImportImage,
  Log,
  Measurement,
  PartCheck,
  RestoreOptions,
  SavedBurrow,
  Snapshot,
  SnapshotFiles,
  SnapshotOptions,
  SnapshotTransfer,
  StopAt,
  StorageReport,
  StoredPart,
} from '@dormouse/engine'
import { capabilitiesIn, ofIsolation } from '@dormouse/engine'
import { bootBurrow } from './burrow/boot-burrow.ts'
import type { BurrowHost } from './burrow/burrow-host.ts'
import { bootSchema, createSchema } from './burrow/create-schema.ts'
import { LinuxBurrow } from './burrow/linux-burrow.ts'
import { prepareKdat } from './burrow/prepare-kdat.ts'
import { SparePool } from './burrow/spare.ts'
import { findHierarchies } from './cgroup/find-hierarchies.ts'
import { ParentCgroup, sandboxShare } from './cgroup/parent-cgroup.ts'
import { findCriu, isUsable } from './criu/find-criu.ts'
import { kdatDirectory } from './criu/kdat.ts'
import { prepareGuestTools } from './guest-tools.ts'
import { throwExplained } from './host/explain-full-disk.ts'
import { FailureLog } from './host/failure-log.ts'
import { makeDirectories } from './host/make-directories.ts'
import { linuxCapabilities } from './linux-capabilities.ts'
import { findGateAddon, gateAddon } from './network/gate-addon.ts'
import { importImage } from './oci/import-image.ts'
import { adoptBurrows } from './snapshot/adopt-burrows.ts'
import { checkListedPart, listParts, verifyStored } from './snapshot/check-stored.ts'
import {
  createFromTemplate,
  expectCreate,
  isTemplatePrepared,
  prepareTemplate,
} from './snapshot/create-from-template.ts'
import { forkBurrow } from './snapshot/fork-burrow.ts'
import { improveAndSum } from './snapshot/improve-stored.ts'
import { lendFiles } from './snapshot/lend-files.ts'
import { restoreSnapshot, rollBackBurrow } from './snapshot/restore-snapshot.ts'
import { prepareSave, saveBurrow } from './snapshot/save-burrow.ts'
import { SnapshotEngine } from './snapshot/snapshot-engine.ts'
import { snapshotFiles } from './snapshot/snapshot-files.ts'
import { snapshotTransfer } from './snapshot/transfer-snapshot.ts'
import { describeSnapshot } from './storage/describe-snapshot.ts'
import { StorageMeter } from './storage/measure-storage.ts'
import type { LinuxPart } from './storage/stored-parts.ts'
import { UpkeepQueue } from './storage/upkeep-queue.ts'
import { getTemplate, isolationOfTemplate } from './template/template-store.ts'
import { VolumeEngine } from './volume/volume-engine.ts'

export interface LinuxEngineOptions {
  /** Holds templates and tools. */
  readonly dataDir: string
  /**
   * Holds burrows and snapshots; the data directory by default. Tests share the templates of a host but not its
   * burrows.
   */
  readonly stateDir?: string
  /** Memory that all sandboxes together leave to the host. */
  readonly hostMemoryBytes?: number
  /** Gets failures of background work. */
  readonly log?: Log
}

/** What a small host needs for itself. */
const DEFAULT_HOST_MEMORY_BYTES = 256 * 1024 ** 2
/** Upkeep after a start waits until clients that waited for the server are served. */
const UPKEEP_AFTER_START_MS = 10_000

interface LinuxEngineParts {
  readonly dataDir: string
  readonly toolsDir: string
  readonly host: BurrowHost
  readonly parent: ParentCgroup
  /** Undefined on a host without a CRIU that works. */
  readonly snapshots: SnapshotEngine | undefined
  readonly hasNetwork: boolean
}

/** Burrows from namespaces, cgroups and overlayfs on this host. */
export class LinuxEngine extends VolumeEngine implements Engine {
  readonly name = 'linux'
  readonly isolations = ['process'] as const
  readonly capabilities: EngineCapabilities
  readonly endAddon = gateAddon
  readonly #parts: LinuxEngineParts
  readonly #burrows = new Set<LinuxBurrow>()
  /** Every burrow that this engine ever held: the files of one that has ended by itself can still be saved. */
  readonly #known = new WeakSet<LinuxBurrow>()
  readonly #upkeep: UpkeepQueue
  #storage: StorageMeter | undefined

  private constructor(parts: LinuxEngineParts) {
    const { host, snapshots, hasNetwork } = parts
    super(host.layout.volumesDir)
    this.#parts = parts
    this.#upkeep = new UpkeepQueue({
      // A sandbox that is awake runs on the version that it was restored from.
      isWanted: async (id) => {
        const { manifest } = await this.#snapshots.store.get(id)
        return ![...this.#burrows].some(({ sandboxId }) => sandboxId === manifest.sandboxId)
      },
      improve: (id, signal) =>
        improveAndSum(this.#snapshots, id, { signal, again: (ms) => this.#upkeep.schedule(id, ms) }),
      failures: host.failures,
    })
    this.capabilities = linuxCapabilities(host.hierarchies, {
      snapshot: snapshots !== undefined,
      network: hasNetwork,
    })
  }

  /** Prepares what is the same for every burrow, so that creating one does none of it. */
  static async open(options: LinuxEngineOptions): Promise<LinuxEngine> {
    const { dataDir, stateDir = dataDir, hostMemoryBytes = DEFAULT_HOST_MEMORY_BYTES } = options
    const layout = await makeDirectories(stateDir, dataDir)
    const [hierarchies, toolsDir, found, gates] = await Promise.all([
      findHierarchies(),
      prepareGuestTools(dataDir),
      findCriu(dataDir),
      findGateAddon(),
    ])
    const criu = found !== undefined && isUsable(found) ? found : undefined
    const failures = new FailureLog(options.log)
    const share = await sandboxShare(hostMemoryBytes)
    const parent = new ParentCgroup({ hierarchies, name: layout.cgroupName, share, failures })
    const spares = new SparePool({ layout, hierarchies, failures, criu, parent })
    const kdat = criu !== undefined && { kdatDir: kdatDirectory(criu) }
    const host = { layout, hierarchies, spares, failures, ...kdat }
    if (criu !== undefined) await prepareKdat(host, { criu, dataDir, toolsDir })
    const snapshots = criu && new SnapshotEngine({ host, criu, dataDir, toolsDir })
    return new LinuxEngine({ dataDir, toolsDir, host, parent, snapshots, hasNetwork: 'addon' in gates })
  }

  transferOf(isolation: Isolation): SnapshotTransfer | undefined {
    const { snapshots } = this.#parts
    return isolation === 'process' && snapshots !== undefined ? snapshotTransfer(snapshots) : undefined
  }

  get failures(): ReadonlyMap<EngineFailureKind, number> {
    return this.#parts.host.failures.counts
  }

  capabilitiesOf(isolation: Isolation): EngineCapabilities {
    return capabilitiesIn(this, isolation)
  }

  isolationOf(snapshotId: SnapshotId): 'process' | undefined {
    return existsSync(this.#parts.host.layout.snapshot(snapshotId).manifest) ? 'process' : undefined
  }

  isolationOfTemplate(name: string): Promise<Isolation | undefined> {
    return isolationOfTemplate(this.#parts.dataDir, name)
  }

  async createBurrow(input: CreateBurrow, signal?: AbortSignal): Promise<Burrow> {
    const { dataDir, toolsDir, host, snapshots } = this.#parts
    const { user, env, limits, volumes, ...request } = parseInput(
      createSchema,
      ofIsolation(this, input),
      'burrow',
    )
    await Promise.all(volumes.map(({ volumeId }) => this.volumes.find(volumeId)))
    const template = await getTemplate(dataDir, request.template)
    this.#requireControllers()
    const create = { sandboxId: request.sandboxId, limits, volumes, user, env, signal }
    const whole = { ...request, ...(user !== undefined && { user }), ...(env !== undefined && { env }) }
    const boot = { request: whole, volumes, limits, template, toolsDir, signal }
    const make = async () => {
      const restored = snapshots && (await createFromTemplate(snapshots, template, create))
      return this.#hold(restored ?? (await bootBurrow(host, boot)))
    }
    return this.whileMounting(volumes, make, signal).catch(throwExplained)
  }

  /**
   * Makes sure that sandboxes of a template start from a snapshot of it instead of booting.
   * Pre: state and data directory are the same.
   */
  async prepareTemplate(name: string): Promise<void> {
    const { dataDir, snapshots } = this.#parts
    const template = await getTemplate(dataDir, name)
    if (snapshots !== undefined) await prepareTemplate(snapshots, template)
  }

  async isTemplatePrepared(name: string): Promise<boolean> {
    const { dataDir, snapshots } = this.#parts
    const template = await getTemplate(dataDir, name)
    // Without CRIU there is nothing to prepare.
    return snapshots === undefined || isTemplatePrepared(snapshots, template)
  }

  /** A sandbox of this template is likely to be created: restores one ahead of need. */
  async expectCreate(name: string): Promise<void> {
    const { dataDir, snapshots, hasNetwork } = this.#parts
    const template = await getTemplate(dataDir, name)
    if (snapshots !== undefined) await expectCreate(snapshots, template, { hasNetwork })
  }

  /** Call before a template is removed. Post: the reserve holds no burrow of it. */
  async forgetTemplate(name: string): Promise<void> {
    await this.#parts.snapshots?.reserve.forget(({ template }) => template.name === name)
  }

  async prepareSnapshot(burrow: Burrow, signal?: AbortSignal): Promise<void> {
    await prepareSave(this.#snapshots, this.#own(burrow), signal)
  }

  async snapshot(burrow: Burrow, options: SnapshotOptions): Promise<SavedBurrow> {
    const own = this.#own(burrow, options)
    return this.whileMounting(own.record.volumes, async () => {
      const saved = await saveBurrow(this.#snapshots, own, options)
      this.#upkeep.schedule(saved.snapshot.id)
      return saved.burrow === undefined ? saved : { ...saved, burrow: this.#hold(saved.burrow) }
    })
  }

  async restore(snapshotId: SnapshotId, options: RestoreOptions): Promise<Burrow> {
    const boot = { user: options.user, env: options.env, image: options.image }
    const whole = { ...options, ...parseInput(bootSchema, boot, 'restore') }
    const restore = async () => this.#hold(await restoreSnapshot(this.#snapshots, snapshotId, whole))
    return this.whileMounting(options.volumes ?? [], restore, options.signal).catch(throwExplained)
  }

  async fork(burrow: Burrow, { onParent, onChild, ...options }: ForkOptions): Promise<ForkedBurrow> {
    const own = this.#own(burrow)
    const held: ForkOptions = {
      ...options,
      onParent: (parent) => {
        this.#hold(parent.burrow as LinuxBurrow)
        onParent?.(parent)
      },
      onChild: (child) => {
        this.#hold(child as LinuxBurrow)
        onChild?.(child)
      },
    }
    return this.whileMounting(own.record.volumes, () => forkBurrow(this.#snapshots, own, held))
  }

  async rollback(burrow: Burrow, snapshotId: SnapshotId): Promise<Burrow> {
    const own = this.#own(burrow)
    const rollBack = async () => this.#hold(await rollBackBurrow(this.#snapshots, own, snapshotId))
    return this.whileMounting(own.record.volumes, rollBack)
  }

  async listSnapshots({ except }: { except?: ReadonlySet<SnapshotId> } = {}): Promise<readonly Snapshot[]> {
    return (await this.#snapshots.store.list(except)).map(describeSnapshot)
  }

  async getSnapshot(snapshotId: SnapshotId): Promise<Snapshot> {
    return describeSnapshot((await this.#snapshots.store.get(snapshotId)).manifest)
  }

  snapshotFiles(snapshotId: SnapshotId): SnapshotFiles {
    return snapshotFiles(this.#snapshots, snapshotId)
  }

  lendFiles: NonNullable<Engine['lendFiles']> = (id, use) => lendFiles(this.#snapshots, id, use)

  async importImage(request: ImportImage): Promise<ImportedImage> {
    return importImage(this.#snapshots, request)
  }

  async syncSnapshot(snapshotId: SnapshotId): Promise<void> {
    await this.#snapshots.host.unsynced.require(snapshotId)
  }

  protected burrowsWith(volumeId: VolumeId): LinuxBurrow[] {
    const mounts = ({ record }: LinuxBurrow) => record.volumes.some((mount) => mount.volumeId === volumeId)
    return [...this.#burrows].filter(mounts)
  }

  storage(): Promise<StorageReport> {
    return this.#storageMeter().measure()
  }

  measureWritten(burrow: Burrow, stopAt: StopAt = {}): Measurement {
    const { paths, record } = this.#own(burrow)
    return this.#storageMeter().written(paths.upper, record.layers, stopAt)
  }

  async deleteSnapshot(snapshotId: SnapshotId): Promise<void> {
    const { host, reserve, store, collector } = this.#snapshots
    // Burrows and later snapshots may use its layers, and rely on them being on disk.
    await host.unsynced.require(snapshotId)
    await reserve.forget(({ manifest }) => manifest.id === snapshotId)
    await host.arrivals.stop(snapshotId)
    await store.delete(snapshotId)
    await collector.collect()
  }

  async verifySnapshot(snapshotId: SnapshotId): Promise<void> {
    await verifyStored(this.#snapshots, snapshotId)
  }

  async listParts(snapshotId?: SnapshotId): Promise<readonly StoredPart[]> {
    return listParts(this.#snapshots, snapshotId)
  }

  /** Pre: `part` comes from `listParts` of an engine of this kind. */
  async checkPart(part: StoredPart, options: CheckPartOptions): Promise<PartCheck> {
    return checkListedPart(this.#snapshots, part as LinuxPart, options)
  }

  /** Improves snapshots of sleeping sandboxes now, not in the background. Returns those that got a new version. */
  async upkeep(): Promise<SnapshotId[]> {
    const snapshots = await this.#snapshots.store.list()
    return this.#upkeep.run(snapshots.map(({ id }) => id))
  }

  async adoptBurrows(): Promise<AdoptedBurrows> {
    const { host, snapshots } = this.#parts
    const undone = (await snapshots?.removeUndone()) ?? []
    const { burrows, lost } = await adoptBurrows(host, { undone: new Set(undone) })
    for (const burrow of burrows) this.#hold(burrow)
    await snapshots?.removeLeftovers()
    await this.volumes.removeDeleted()
    // Upkeep that the last server did not get to.
    for (const id of (await snapshots?.store.ids()) ?? []) this.#upkeep.schedule(id, UPKEEP_AFTER_START_MS)
    return { burrows, lost, undone }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { host, snapshots, parent } = this.#parts
    await this.#upkeep[Symbol.asyncDispose]()
    for (const burrow of this.#burrows) burrow.release()
    this.#burrows.clear()
    await snapshots?.[Symbol.asyncDispose]()
    await host.spares[Symbol.asyncDispose]()
    await parent.remove()
  }

  get #snapshots(): SnapshotEngine {
    const { snapshots } = this.#parts
    if (snapshots !== undefined) return snapshots
    throw new DormouseError(
      'host_unsupported',
      'This host has no CRIU that works, so sandboxes cannot be saved.',
    )
  }

  #storageMeter(): StorageMeter {
    const { layout, failures } = this.#parts.host
    this.#storage ??= new StorageMeter(layout, this.#snapshots.store, failures)
    return this.#storage
  }

  #requireControllers(): void {
    const missing = (['memory', 'cpu', 'pids'] as const).filter((name) => !this.capabilities.limits[name])
    if (missing.length === 0) return
    const message = `This host has no cgroup controller for ${missing.join(', ')}.`
    throw new DormouseError('host_unsupported', message)
  }

  #own(burrow: Burrow, saving?: SnapshotOptions): LinuxBurrow {
    const isEnough = (held: LinuxBurrow) =>
      this.#burrows.has(held) ||
      (saving?.kind === 'files' && saving.leave === 'gone' && this.#known.has(held))
    if (burrow instanceof LinuxBurrow && isEnough(burrow)) return burrow
    throw new DormouseError('burrow_ended', 'This burrow has ended, or another engine holds it.')
  }

  #hold(burrow: LinuxBurrow): LinuxBurrow {
    this.#burrows.add(burrow)
    this.#known.add(burrow)
    void burrow.ended.then(({ reason }) => {
      this.#burrows.delete(burrow)
      const { parent } = burrow.record
      // Its sandbox now sleeps on the snapshot that the burrow came from, for example after it was frozen.
      if (parent !== undefined && reason !== 'stored') this.#upkeep.schedule(parent)
    })
    return burrow
  }
}
