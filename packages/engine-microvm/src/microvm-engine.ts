import { mkdir, realpath } from 'node:fs/promises'
import {
  type BurrowLimitsInput,
  burrowLimitsSchema,
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
  FileTree,
  ForkedBurrow,
  ForkOptions,
  ImportedImage,
  Measurement,
  PartCheck,
  Preparation,
  RestoreOptions,
  SavedBurrow,
  Snapshot,
  SnapshotFiles,
  SnapshotOptions,
  SnapshotTransfer,
  StorageReport,
  StoredPart,
} from '@dormouse/engine'
import { capabilitiesIn, ofIsolation } from '@dormouse/engine'
import {
  createSchema,
  gateAddon,
  getTemplate,
  isolationOfTemplate,
  type ParentCgroup,
  requireLocks,
  requireVolumes,
  VolumeEngine,
} from '@dormouse/engine-linux/for-engines'
import { adoptBurrows } from './adopt-burrows.ts'
import { machineSize, refuseLimits } from './burrow/host-limits.ts'
import { MicrovmBurrow } from './burrow/microvm-burrow.ts'
import { sparesOf } from './burrow/spare-pool.ts'
import { writtenBytes } from './burrow/written-bytes.ts'
import { writtenFiles } from './burrow/written-files.ts'
import type { MicrovmHost } from './microvm-host.ts'
import { type MicrovmEngineOptions, openHost } from './open-host.ts'
import { ArrivedFiles } from './snapshot/arrived-files.ts'
import { BootedTemplates, treeOf } from './snapshot/booted-template.ts'
import { type Introduction, type MakeBurrow, makeBurrow } from './snapshot/make-burrow.ts'
import { removeUnused } from './snapshot/remove-unused.ts'
import { checkChildren, continueSaved, makeChildren, saveBurrow } from './snapshot/save-burrow.ts'
import { FileReaders } from './snapshot/snapshot-files.ts'
import { describeSnapshot, MicrovmSnapshotStore } from './snapshot/snapshot-store.ts'
import { checkPart, listParts } from './snapshot/stored-parts.ts'
import { machineTransfer } from './snapshot/transfer-snapshot.ts'

interface MicrovmEngineParts {
  readonly host: MicrovmHost
  readonly parent: ParentCgroup
  readonly options: MicrovmEngineOptions
}

/** Burrows that are virtual machines: QEMU with KVM where it works, and otherwise with emulation. */
export class MicrovmEngine extends VolumeEngine implements Engine {
  readonly name = 'microvm'
  readonly isolations = ['microvm'] as const
  readonly endAddon = gateAddon
  readonly capabilities: EngineCapabilities
  readonly #host: MicrovmHost
  readonly #parent: ParentCgroup
  readonly #options: MicrovmEngineOptions
  readonly #templates: BootedTemplates
  readonly #store: MicrovmSnapshotStore
  readonly #arrived: ArrivedFiles
  readonly #readers: FileReaders
  readonly #burrows = new Set<MicrovmBurrow>()
  /** The files of a burrow that has ended by itself can still be saved. */
  readonly #known = new WeakSet<MicrovmBurrow>()

  private constructor({ host, parent, options }: MicrovmEngineParts) {
    super(host.layout.volumesDir)
    this.#host = host
    this.#parent = parent
    this.#options = options
    this.#templates = new BootedTemplates(host)
    this.#store = new MicrovmSnapshotStore(host)
    this.#arrived = new ArrivedFiles(host.layout.arrivedDir)
    this.#readers = new FileReaders(host, this.#store)
    this.capabilities = {
      snapshot: true,
      adopt: true,
      limits: { memory: true, cpu: true, pids: true },
      network: host.hasNetwork,
      volumes: true,
      timers: false,
      snapshotFiles: true,
      images: false,
      waitsAtMemoryLimit: true,
    }
  }

  /** Throws `isolation_unavailable` when QEMU or the guest's kernel is not installed. */
  static async open(options: MicrovmEngineOptions): Promise<MicrovmEngine> {
    const { dataDir, stateDir = dataDir } = options
    await mkdir(stateDir, { recursive: true, mode: 0o711 })
    const paths = { dataDir: await realpath(dataDir), stateDir: await realpath(stateDir) }
    return new MicrovmEngine({
      ...(await openHost({ ...options, ...paths })),
      options: { ...options, ...paths },
    })
  }

  /** Whether guests run on KVM or under emulation, and why not on KVM. */
  get accelerator(): { readonly name: 'kvm' | 'tcg'; readonly whyNotKvm?: string } {
    const { accelerator, whyNotKvm } = this.#host.qemu
    return { name: accelerator, ...(whyNotKvm && { whyNotKvm }) }
  }

  /** How many machines wait for a sandbox. */
  get spareCount(): number {
    return sparesOf(this.#host).size
  }

  get failures(): ReadonlyMap<EngineFailureKind, number> {
    return this.#host.failures.counts
  }

  capabilitiesOf(isolation: Isolation): EngineCapabilities {
    return capabilitiesIn(this, isolation)
  }

  transferOf(isolation: Isolation): SnapshotTransfer | undefined {
    const parts = { host: this.#host, store: this.#store, arrived: this.#arrived }
    return isolation === 'microvm' ? machineTransfer(parts) : undefined
  }

  isolationOf(snapshotId: SnapshotId): 'microvm' | undefined {
    return this.#store.has(snapshotId) ? 'microvm' : undefined
  }

  async isolationOfTemplate(name: string): Promise<Isolation | undefined> {
    return isolationOfTemplate(this.#options.dataDir, name)
  }

  async createBurrow(input: CreateBurrow, signal?: AbortSignal): Promise<Burrow> {
    const { user, env, limits, volumes, ...request } = parseInput(
      createSchema,
      ofIsolation(this, input),
      'burrow',
    )
    await Promise.all(volumes.map(({ volumeId }) => this.volumes.find(volumeId)))
    const tree = treeOf(await getTemplate(this.#options.dataDir, request.template))
    return this.#create(tree, { sandboxId: request.sandboxId, user, env, limits, volumes, signal })
  }

  async bootFiles(tree: FileTree, options: RestoreOptions): Promise<Burrow> {
    const { sandboxId, signal } = options
    const asked = { user: options.user, env: options.env, limits: options.limits, volumes: options.volumes }
    const { user, env, limits, volumes } = parseInput(
      createSchema,
      { sandboxId, template: tree.template, ...withoutUndefined(asked) },
      'restore',
    )
    requireVolumes(volumes, this.#host.layout.volumesDir)
    const image = options.image ?? tree.image
    const who = { sandboxId, user, env, limits, volumes, signal }
    return this.#create({ ...tree, image }, who, options.preparation)
  }

  /** Restores the booted template of these files; boots it first if this is the first of its size. */
  async #create(
    tree: FileTree,
    {
      limits,
      volumes = [],
      signal,
      ...who
    }: Pick<MakeBurrow, 'limits' | 'volumes' | 'signal'> & Omit<Introduction, 'reason' | 'reseed'>,
    preparation?: Preparation,
  ): Promise<Burrow> {
    const preload = preparation === undefined ? this.#preload(tree) : []
    const boot = { tree, ...machineSize(limits), preload, preparation }
    const { base, paths } = await this.#templates.get(boot)
    const introduction = { ...who, reason: 'create' as const, reseed: true }
    const make = { base, source: paths, isBoot: false, limits, volumes, introduction, signal }
    const made = async () => this.#hold(await makeBurrow(this.#host, make))
    return this.whileMounting(volumes, made, signal)
  }

  /** Makes sure that sandboxes of a template with this limit start from a snapshot of it. */
  async prepareTemplate(name: string, memoryBytes: number): Promise<void> {
    const tree = treeOf(await getTemplate(this.#options.dataDir, name))
    const size = machineSize(burrowLimitsSchema.parse({ memoryBytes }))
    await this.#templates.get({ tree, ...size, preload: this.#preload(tree) })
  }

  /** Only waits for memory: the changed pages are found when the machine stands still, in milliseconds. */
  async prepareSnapshot(burrow: Burrow, signal?: AbortSignal): Promise<void> {
    await this.#own(burrow).memoryToArrive(signal)
  }

  async snapshot(burrow: Burrow, options: SnapshotOptions): Promise<SavedBurrow> {
    const { kind = 'full', leave, limitRestore = (_id, restore) => restore() } = options
    const own = this.#own(burrow, options)
    const saved = await this.whileMounting(own.record.volumes, () => saveBurrow(this.#host, own, options))
    const snapshot = describeSnapshot(saved.manifest)
    const { connections } = saved
    try {
      if (leave === 'gone') return { snapshot, connections }
      if (kind === 'files') return { snapshot, burrow }
      const next = await limitRestore(burrow.sandboxId, () => continueSaved(this.#host, saved, leave))
      return { snapshot, connections, burrow: this.#hold(next) }
    } catch (resumeError) {
      return { snapshot, connections, resumeError }
    } finally {
      this.#store.sums.add(snapshot.id)
    }
  }

  async restore(snapshotId: SnapshotId, options: RestoreOptions): Promise<Burrow> {
    const { sandboxId, of, reason = 'resume', reseed = true, signal } = options
    const manifest = await this.#store.getUsable(snapshotId, of)
    const { user, env, limits, volumes } = parseInput(
      createSchema,
      {
        sandboxId,
        template: manifest.base.template,
        limits: { ...manifest.limits, ...options.limits },
        volumes: options.volumes ?? describeSnapshot(manifest).volumes,
        ...(options.user && { user: options.user }),
        ...(options.env && { env: options.env }),
      },
      'restore',
    )
    const { volumesDir } = this.#host.layout
    requireVolumes(volumes, volumesDir)
    await requireLocks({ locks: manifest.volumeLocks, mounts: volumes, volumesDir })
    const isBoot = manifest.kind === 'files'
    const image = options.image ?? manifest.base.image
    const introduction: Introduction = { sandboxId, reason, reseed, env, ...(isBoot && { user, image }) }
    const source = this.#host.layout.snapshot(snapshotId)
    const { connections } = options
    const make = { base: manifest.base, source, isBoot, parent: snapshotId, limits, introduction, signal }
    const had = { hadLimits: manifest.limits, hadVolumes: manifest.volumes }
    const whole = { ...make, connections, volumes, ...had }
    const made = async () => this.#hold(await makeBurrow(this.#host, whole))
    return this.whileMounting(volumes, made, signal)
  }

  async fork(burrow: Burrow, options: ForkOptions): Promise<ForkedBurrow> {
    checkChildren(options)
    const { limitRestore = (_id, restore) => restore(), onParent, signal, reseed = true } = options
    const own = this.#own(burrow)
    const saved = await saveBurrow(this.#host, own, {
      leave: 'running',
      isForked: true,
      ...(signal && { signal }),
    })
    const { manifest, wasFrozen, connections } = saved
    const snapshot = describeSnapshot(manifest)
    const leave = wasFrozen ? 'frozen' : 'running'
    const resume = () => continueSaved(this.#host, saved, leave, { reason: 'fork', reseed })
    const resumed = await limitRestore(burrow.sandboxId, resume)
      .catch((resumeError: unknown) => ({ resumeError }))
      .finally(() => this.#store.sums.add(snapshot.id))
    if ('resumeError' in resumed)
      return { snapshot, connections, children: [], resumeError: resumed.resumeError }
    const parent = this.#hold(resumed)
    onParent?.({ burrow: parent, snapshot, connections })
    const hold = (child: MicrovmBurrow) => void this.#hold(child)
    const children = await makeChildren(this.#host, manifest, options, hold)
    return { snapshot, connections, parent, children }
  }

  async rollback(burrow: Burrow, snapshotId: SnapshotId): Promise<Burrow> {
    const own = this.#own(burrow)
    const { sandboxId, limits, record } = own
    await this.#store.getUsable(snapshotId, sandboxId)
    await own.destroy()
    const volumes = record.volumes.map(({ volumeId, path, readOnly }) => ({ volumeId, path, readOnly }))
    return this.restore(snapshotId, { sandboxId, limits, volumes, reason: 'rollback' })
  }

  listSnapshots({ except }: { except?: ReadonlySet<SnapshotId> } = {}): Promise<readonly Snapshot[]> {
    return this.#store.list(except)
  }

  async getSnapshot(snapshotId: SnapshotId): Promise<Snapshot> {
    return describeSnapshot(await this.#store.get(snapshotId))
  }

  snapshotFiles(snapshotId: SnapshotId): SnapshotFiles {
    return this.#readers.of(snapshotId)
  }

  async importImage(): Promise<ImportedImage> {
    throw new DormouseError('isolation_unsupported', 'Container images run with isolation `process` only.')
  }

  /** Throws `isolation_unsupported` for limits that the machine of a snapshot is too small for. */
  async checkLimits(snapshotId: SnapshotId, input: BurrowLimitsInput): Promise<void> {
    const { base, limits } = await this.#store.get(snapshotId)
    refuseLimits(parseInput(burrowLimitsSchema, { ...limits, ...input }, 'limits'), base.machine)
  }

  /** Every snapshot is on disk when it exists. */
  async syncSnapshot(): Promise<void> {}

  protected burrowsWith(volumeId: VolumeId): MicrovmBurrow[] {
    const mounts = ({ record }: MicrovmBurrow) => record.volumes.some((mount) => mount.volumeId === volumeId)
    return [...this.#burrows].filter(mounts)
  }

  storage(): Promise<StorageReport> {
    return this.#store.storage()
  }

  async listParts(snapshotId?: SnapshotId): Promise<readonly StoredPart[]> {
    return listParts(this.#store, snapshotId)
  }

  async checkPart(part: StoredPart, options: CheckPartOptions): Promise<PartCheck> {
    return checkPart(this.#store, part, options)
  }

  async verifySnapshot(snapshotId: SnapshotId): Promise<void> {
    await this.#store.verify(snapshotId)
  }

  measureWritten(burrow: Burrow): Measurement {
    const own = this.#own(burrow)
    const measure = async () => {
      const [bytes, files] = await Promise.all([writtenBytes(own.paths), writtenFiles(this.#host, own)])
      return { bytes, files, isWhole: true }
    }
    return { advance: measure, [Symbol.dispose]() {} }
  }

  async deleteSnapshot(snapshotId: SnapshotId): Promise<void> {
    await this.#host.arrivals.stop(snapshotId)
    await this.#store.delete(snapshotId)
    await this.#arrived.removeUnused()
  }

  async adoptBurrows(): Promise<AdoptedBurrows> {
    const { burrows, lost } = await adoptBurrows(this.#host)
    for (const burrow of burrows) this.#hold(burrow)
    await this.#store.takeOver()
    await this.#arrived.removeUnused()
    const problem = 'unused templates of virtual machines were not removed'
    await removeUnused(this.#host).catch((error: unknown) =>
      this.#host.failures.report('upkeep', error, {}, problem),
    )
    return { burrows, lost, undone: [] }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const burrow of this.#burrows) burrow.release()
    this.#burrows.clear()
    await this.#readers[Symbol.asyncDispose]()
    await this.#store.sums[Symbol.asyncDispose]()
    await this.#host.arrivals[Symbol.asyncDispose]()
    await sparesOf(this.#host)[Symbol.asyncDispose]()
    await this.#parent.remove()
  }

  /** An image may have no Python that could import them. */
  #preload({ preload, isImage }: FileTree): readonly string[] {
    return isImage ? [] : (this.#options.preload ?? preload)
  }

  #own(burrow: Burrow, saving?: SnapshotOptions): MicrovmBurrow {
    const isEnough = (held: MicrovmBurrow) =>
      this.#burrows.has(held) ||
      (saving?.kind === 'files' && saving.leave === 'gone' && this.#known.has(held))
    if (burrow instanceof MicrovmBurrow && isEnough(burrow)) return burrow
    throw new DormouseError('burrow_ended', 'This burrow has ended, or another engine holds it.')
  }

  #hold(burrow: MicrovmBurrow): MicrovmBurrow {
    this.#burrows.add(burrow)
    this.#known.add(burrow)
    void burrow.ended.then(() => this.#burrows.delete(burrow))
    return burrow
  }
}

/** Defaults of a schema apply to what is absent, not to what is undefined. */
function withoutUndefined(fields: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}
