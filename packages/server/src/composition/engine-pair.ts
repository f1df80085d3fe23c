import {
  type BurrowLimitsInput,
  DormouseError,
  type Isolation,
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
  VolumeFiles,
} from '@dormouse/engine'
import { capabilitiesIn } from '@dormouse/engine'

/**
 * Two engines as one: sandboxes choose by `isolation`, and snapshots and burrows stay with the engine that made them.
 * Volumes and images belong to the first. Pre: neither engine knows a snapshot of the other.
 */
export class EnginePair implements Engine {
  readonly name: string
  readonly capabilities: EngineCapabilities
  readonly isolations: readonly Isolation[]
  readonly #first: Engine
  readonly #second: Engine

  constructor(first: Engine, second: Engine) {
    this.#first = first
    this.#second = second
    this.name = `${first.name}+${second.name}`
    this.capabilities = first.capabilities
    this.isolations = [...first.isolations, ...second.isolations]
  }

  get failures(): ReadonlyMap<EngineFailureKind, number> {
    const counts = new Map(this.#first.failures)
    for (const [kind, count] of this.#second.failures) counts.set(kind, (counts.get(kind) ?? 0) + count)
    return counts
  }

  get endAddon(): string | undefined {
    return this.#first.endAddon
  }

  capabilitiesOf(isolation: Isolation): EngineCapabilities {
    return this.#for(isolation).capabilitiesOf(isolation)
  }

  transferOf(isolation: Isolation): SnapshotTransfer | undefined {
    return this.#first.transferOf(isolation) ?? this.#second.transferOf(isolation)
  }

  isolationOfTemplate(name: string): Promise<Isolation | undefined> {
    return this.#first.isolationOfTemplate(name)
  }

  isolationOf(snapshotId: SnapshotId): Isolation | undefined {
    return this.#second.isolationOf(snapshotId) ?? this.#first.isolationOf(snapshotId)
  }

  createBurrow(request: CreateBurrow, signal?: AbortSignal): Promise<Burrow> {
    const { isolation = 'process', ...rest } = request
    return this.#for(isolation).createBurrow(rest, signal)
  }

  prepareSnapshot(burrow: Burrow, signal?: AbortSignal): Promise<void> {
    return this.#with(burrow).prepareSnapshot(burrow, signal)
  }

  snapshot(burrow: Burrow, options: SnapshotOptions): Promise<SavedBurrow> {
    return this.#with(burrow).snapshot(burrow, options)
  }

  async restore(snapshotId: SnapshotId, { isolation, ...options }: RestoreOptions): Promise<Burrow> {
    const having = this.#having(snapshotId)
    if (isolation === undefined || having.isolations.includes(isolation))
      return having.restore(snapshotId, options)
    const booting = this.#for(isolation)
    if (having.lendFiles === undefined || booting.bootFiles === undefined)
      throw new DormouseError(
        'isolation_unsupported',
        `This snapshot cannot start with isolation "${isolation}".`,
      )
    return having.lendFiles(snapshotId, async (tree) => booting.bootFiles?.(tree, options) as Promise<Burrow>)
  }

  fork(burrow: Burrow, options: ForkOptions): Promise<ForkedBurrow> {
    return this.#with(burrow).fork(burrow, options)
  }

  rollback(burrow: Burrow, snapshotId: SnapshotId): Promise<Burrow> {
    return this.#with(burrow).rollback(burrow, snapshotId)
  }

  async listSnapshots(options?: { except?: ReadonlySet<SnapshotId> }): Promise<readonly Snapshot[]> {
    return (await this.#both((engine) => engine.listSnapshots(options))).flat()
  }

  getSnapshot(snapshotId: SnapshotId): Promise<Snapshot> {
    return this.#having(snapshotId).getSnapshot(snapshotId)
  }

  snapshotFiles(snapshotId: SnapshotId): SnapshotFiles {
    return this.#having(snapshotId).snapshotFiles(snapshotId)
  }

  async checkLimits(snapshotId: SnapshotId, limits: BurrowLimitsInput): Promise<void> {
    await this.#having(snapshotId).checkLimits?.(snapshotId, limits)
  }

  importImage(request: ImportImage): Promise<ImportedImage> {
    return this.#first.importImage(request)
  }

  syncSnapshot(snapshotId: SnapshotId): Promise<void> {
    return this.#having(snapshotId).syncSnapshot(snapshotId)
  }

  createVolume(...args: Parameters<Engine['createVolume']>): ReturnType<Engine['createVolume']> {
    return this.#first.createVolume(...args)
  }

  deleteVolume(volumeId: VolumeId): Promise<void> {
    return this.#first.deleteVolume(volumeId)
  }

  listVolumes(): Promise<readonly VolumeId[]> {
    return this.#first.listVolumes()
  }

  measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement> {
    return this.#first.measureVolume(volumeId, stopAt)
  }

  limitVolumes(limits: Parameters<Engine['limitVolumes']>[0]): ReturnType<Engine['limitVolumes']> {
    return this.#first.limitVolumes(limits)
  }

  cloneVolume(clone: Parameters<Engine['cloneVolume']>[0]): ReturnType<Engine['cloneVolume']> {
    return this.#first.cloneVolume(clone)
  }

  volumeFiles(volumeId: VolumeId): VolumeFiles {
    return this.#first.volumeFiles(volumeId)
  }

  async storage(): Promise<StorageReport> {
    const [first, second] = await this.#both((engine) => engine.storage())
    return {
      totalBytes: first.totalBytes + second.totalBytes,
      snapshots: new Map([...first.snapshots, ...second.snapshots]),
    }
  }

  async listParts(snapshotId?: SnapshotId): Promise<readonly StoredPart[]> {
    if (snapshotId !== undefined) return this.#having(snapshotId).listParts(snapshotId)
    return (await this.#both((engine) => engine.listParts())).flat()
  }

  checkPart(part: StoredPart, options: CheckPartOptions): Promise<PartCheck> {
    const [snapshotId] = part.snapshots
    const engine = snapshotId === undefined ? this.#first : this.#having(snapshotId)
    return engine.checkPart(part, options)
  }

  verifySnapshot(snapshotId: SnapshotId): Promise<void> {
    return this.#having(snapshotId).verifySnapshot(snapshotId)
  }

  measureWritten(burrow: Burrow, stopAt?: StopAt): Measurement {
    return this.#with(burrow).measureWritten(burrow, stopAt)
  }

  deleteSnapshot(snapshotId: SnapshotId): Promise<void> {
    return this.#having(snapshotId).deleteSnapshot(snapshotId)
  }

  async adoptBurrows(): Promise<AdoptedBurrows> {
    const [first, second] = await this.#both((engine) => engine.adoptBurrows())
    return {
      burrows: [...first.burrows, ...second.burrows],
      lost: [...first.lost, ...second.lost],
      undone: [...first.undone, ...second.undone],
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#both((engine) => engine[Symbol.asyncDispose]())
  }

  #for(isolation: Isolation): Engine {
    const engine = [this.#first, this.#second].find(({ isolations }) => isolations.includes(isolation))
    // Throws: neither engine has it.
    if (engine === undefined) capabilitiesIn(this, isolation)
    return engine ?? this.#first
  }

  #having(snapshotId: SnapshotId): Engine {
    return this.#second.isolationOf(snapshotId) === undefined ? this.#first : this.#second
  }

  #with({ isolation }: Burrow): Engine {
    return this.#for(isolation)
  }

  #both<Value>(call: (engine: Engine) => Promise<Value>): Promise<[Value, Value]> {
    return Promise.all([call(this.#first), call(this.#second)])
  }
}
