import { mkdir, realpath } from 'node:fs/promises'
import {
  burrowLimitsSchema,
  DormouseError,
  ENV_MAX_BYTES,
  ENV_MAX_ENTRIES,
  isSandboxId,
  parseInput,
  type SandboxId,
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
  Log,
  Measurement,
  PartCheck,
  RestoreOptions,
  SavedBurrow,
  Snapshot,
  SnapshotOptions,
  StopAt,
  StorageReport,
  StoredPart,
} from '@dormouse/engine'
import { z } from 'zod'
import { adoptBurrows } from './burrow/adopt-burrows.ts'
import { bootBurrow } from './burrow/boot-burrow.ts'
import { Layout } from './burrow/layout.ts'
import { LinuxBurrow } from './burrow/linux-burrow.ts'
import { SparePool } from './burrow/spare.ts'
import type { BurrowHost } from './burrow/start-burrow.ts'
import { findHierarchies } from './cgroup/find-hierarchies.ts'
import { ParentCgroup, sandboxShare } from './cgroup/parent-cgroup.ts'
import { type Criu, findCriu, isUsable } from './criu/find-criu.ts'
import { kdatDirectory, prepareKdat } from './criu/kdat.ts'
import { prepareGuestTools } from './guest-tools.ts'
import { explainFullDisk } from './host/explain-full-disk.ts'
import { FailureLog } from './host/failure-log.ts'
import { findGateAddon } from './network/gate-addon.ts'
import { describeSnapshot } from './snapshot/describe-snapshot.ts'
import { Sleeper } from './snapshot/sleeper.ts'
import { StorageMeter } from './storage/measure-storage.ts'
import { checkPart, isSamePlace, type LinuxPart } from './storage/stored-parts.ts'
import { Upkeep } from './storage/upkeep.ts'
import { getTemplate } from './template/template-store.ts'
import { volumeMountsSchema } from './volume/volume-mounts.ts'
import { VolumeStore } from './volume/volume-store.ts'

export interface LinuxEngineOptions {
  /** Templates and tools. */
  readonly dataDir: string
  /** Burrows; the data directory when not given. Tests share the templates of a host but not its burrows. */
  readonly stateDir?: string
  /** Memory that sandboxes together leave to the host. */
  readonly hostMemoryBytes?: number
  /** Gets failures of background work. */
  readonly log?: Log
}

/** What a small host needs for itself. */
const DEFAULT_HOST_MEMORY_BYTES = 256 * 1024 ** 2
/** Those who have waited for a server come first. */
const UPKEEP_AFTER_START_MS = 10_000

const envSchema = z
  .record(
    z.string().regex(/^[^=\0]+$/, 'must be a name without = and NUL'),
    z.string().regex(/^[^\0]*$/, 'must not contain NUL'),
  )
  .refine((env) => Object.keys(env).length <= ENV_MAX_ENTRIES, `has more than ${ENV_MAX_ENTRIES} entries`)
  .refine((env) => JSON.stringify(env).length <= ENV_MAX_BYTES, `is longer than ${ENV_MAX_BYTES} bytes`)

const createSchema = z.strictObject({
  sandboxId: z.custom<SandboxId>(
    (value) => typeof value === 'string' && isSandboxId(value),
    'is not a sandbox id',
  ),
  template: z.string(),
  limits: burrowLimitsSchema.prefault({}),
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'is not a user name')
    .optional(),
  env: envSchema.optional(),
  volumes: volumeMountsSchema.prefault([]),
})

const bootSchema = createSchema.pick({ user: true, env: true })

/** Burrows from namespaces, cgroups and overlayfs on this host. */
export class LinuxEngine implements Engine {
  readonly name = 'linux'
  readonly capabilities: EngineCapabilities
  readonly #dataDir: string
  readonly #toolsDir: string
  readonly #host: BurrowHost
  readonly #parent: ParentCgroup
  readonly #failures: FailureLog
  readonly #sleeper: Sleeper | undefined
  readonly #burrows = new Set<LinuxBurrow>()
  /** All that this engine ever held: the files of one that has ended by itself can still be saved. */
  readonly #known = new WeakSet<LinuxBurrow>()
  readonly #upkeep: Upkeep
  readonly #volumes: VolumeStore
  #storage: StorageMeter | undefined

  private constructor(parts: {
    dataDir: string
    toolsDir: string
    host: BurrowHost
    criu: Criu | undefined
    parent: ParentCgroup
    network: boolean
    failures: FailureLog
  }) {
    const { dataDir, toolsDir, host, criu } = parts
    this.#dataDir = dataDir
    this.#toolsDir = toolsDir
    this.#host = host
    this.#parent = parts.parent
    this.#failures = parts.failures
    this.#volumes = new VolumeStore(host.layout.volumesDir)
    this.#sleeper = criu === undefined ? undefined : new Sleeper({ host, criu, dataDir, toolsDir })
    this.#upkeep = new Upkeep({
      // A sandbox that is awake has gone on from the version there was.
      isWanted: async (id) => {
        const { manifest } = await this.#canSleep().store.get(id)
        return ![...this.#burrows].some(({ sandboxId }) => sandboxId === manifest.sandboxId)
      },
      keepUp: async (id, signal) => {
        const isNew = await this.#canSleep().keepUp(id, signal)
        await this.#canSleep().makeSums(id, signal)
        return isNew
      },
    })
    const { v1, v2 } = host.hierarchies
    const has = (name: 'memory' | 'cpu' | 'pids') => v1.has(name) || v2?.controllers.has(name) === true
    this.capabilities = {
      snapshot: criu !== undefined,
      adopt: true,
      limits: { memory: has('memory'), cpu: has('cpu'), pids: has('pids') },
      network: parts.network,
    }
  }

  /** Prepares what is the same for every burrow, so that creating one does none of it. */
  static async open({
    dataDir,
    stateDir = dataDir,
    hostMemoryBytes = DEFAULT_HOST_MEMORY_BYTES,
    log,
  }: LinuxEngineOptions): Promise<LinuxEngine> {
    await mkdir(stateDir, { recursive: true, mode: 0o711 })
    const layout = new Layout(await realpath(stateDir), await realpath(dataDir))
    for (const path of [
      layout.burrowsDir,
      layout.sparesDir,
      layout.layersDir,
      layout.sumsDir,
      layout.snapshotsDir,
      layout.volumesDir,
      layout.rootMountPoint,
    ]) {
      await mkdir(path, { recursive: true, mode: 0o700 })
    }
    const [hierarchies, toolsDir, found, gates] = await Promise.all([
      findHierarchies(),
      prepareGuestTools(dataDir),
      findCriu(dataDir),
      findGateAddon(),
    ])
    const criu = found !== undefined && isUsable(found) ? found : undefined
    const failures = new FailureLog(log)
    const share = await sandboxShare(hostMemoryBytes)
    const parent = new ParentCgroup(hierarchies, layout.cgroupName, share)
    const spares = new SparePool({ layout, hierarchies, criu, parent })
    const host = { layout, hierarchies, spares, ...(criu !== undefined && { kdatDir: kdatDirectory(criu) }) }
    if (criu !== undefined) await prepareKdat(host, { criu, dataDir, toolsDir })
    return new LinuxEngine({ dataDir, toolsDir, host, criu, parent, network: 'addon' in gates, failures })
  }

  get failures(): ReadonlyMap<EngineFailureKind, number> {
    return this.#failures.counts
  }

  async createBurrow(input: CreateBurrow, signal?: AbortSignal): Promise<Burrow> {
    const { user, env, limits, volumes, ...request } = parseInput(createSchema, input, 'burrow')
    await Promise.all(volumes.map(({ volumeId }) => this.#volumes.find(volumeId)))
    const template = await getTemplate(this.#dataDir, request.template)
    const missing = (['memory', 'cpu', 'pids'] as const).filter((name) => !this.capabilities.limits[name])
    if (missing.length > 0) {
      throw new DormouseError(
        'host_unsupported',
        `This host has no cgroup controller for ${missing.join(', ')}.`,
      )
    }
    const toolsDir = this.#toolsDir
    const restored = await this.#sleeper
      ?.create({
        ...request,
        user,
        env,
        limits,
        volumes,
        template,
        toolsDir,
        signal,
      })
      .catch(throwExplained)
    if (restored !== undefined) return this.#hold(restored)
    const whole = { ...request, ...(user !== undefined && { user }), ...(env !== undefined && { env }) }
    return this.#hold(
      await bootBurrow(this.#host, { request: whole, volumes, limits, template, toolsDir }, signal).catch(
        throwExplained,
      ),
    )
  }

  /**
   * Makes sure that sandboxes of a template start from a snapshot of it instead of booting.
   * Pre: state and data directory are the same.
   */
  async prepareTemplate(name: string): Promise<void> {
    const template = await getTemplate(this.#dataDir, name)
    await this.#sleeper?.prepareTemplate(template, this.#toolsDir)
  }

  async isTemplatePrepared(name: string): Promise<boolean> {
    const template = await getTemplate(this.#dataDir, name)
    // Without CRIU there is nothing that could be prepared.
    return this.#sleeper === undefined || this.#sleeper.isTemplatePrepared(template, this.#toolsDir)
  }

  /** Somebody is likely to create a sandbox of this template: one is restored ahead, soon. */
  async expectCreate(name: string): Promise<void> {
    const template = await getTemplate(this.#dataDir, name)
    await this.#sleeper?.expectCreate(template, this.#toolsDir, { hasNetwork: this.capabilities.network })
  }

  /** Before a template is removed: nothing that was made ahead of need stands on it any more. */
  async forgetTemplate(name: string): Promise<void> {
    await this.#sleeper?.forgetTemplate(name)
  }

  async snapshot(burrow: Burrow, options: SnapshotOptions): Promise<SavedBurrow> {
    const result = await this.#canSleep().snapshot(this.#own(burrow, options), options)
    this.#upkeep.schedule(result.snapshot.id)
    return result.burrow === undefined ? result : { ...result, burrow: this.#hold(result.burrow) }
  }

  async restore(snapshotId: SnapshotId, options: RestoreOptions): Promise<Burrow> {
    const { user, env } = parseInput(bootSchema, { user: options.user, env: options.env }, 'restore')
    const whole = { ...options, user, env }
    return this.#hold(await this.#canSleep().restore(snapshotId, whole).catch(throwExplained))
  }

  async fork(burrow: Burrow, { onParent, ...options }: ForkOptions): Promise<ForkedBurrow> {
    const forked = await this.#canSleep().fork(this.#own(burrow), {
      ...options,
      onParent: ({ burrow: next, snapshot: saved }) => {
        this.#hold(next as LinuxBurrow)
        onParent?.({ burrow: next, snapshot: saved })
      },
    })
    return { ...forked, children: forked.children.map((child) => this.#hold(child)) }
  }

  async rollback(burrow: Burrow, snapshotId: SnapshotId): Promise<Burrow> {
    return this.#hold(await this.#canSleep().rollback(this.#own(burrow), snapshotId))
  }

  async listSnapshots(): Promise<readonly Snapshot[]> {
    return (await this.#canSleep().store.list()).map(describeSnapshot)
  }

  async getSnapshot(snapshotId: SnapshotId): Promise<Snapshot> {
    return describeSnapshot((await this.#canSleep().store.get(snapshotId)).manifest)
  }

  async createVolume(volumeId: VolumeId): Promise<void> {
    await this.#volumes.create(volumeId)
  }

  async deleteVolume(volumeId: VolumeId): Promise<void> {
    const user = [...this.#burrows].find(({ record }) =>
      record.volumes.some((mount) => mount.volumeId === volumeId),
    )
    if (user !== undefined)
      throw new DormouseError('in_use', `The volume ${volumeId} is mounted in ${user.sandboxId}.`)
    await this.#volumes.delete(volumeId)
  }

  async listVolumes(): Promise<readonly VolumeId[]> {
    return this.#volumes.list()
  }

  async measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement> {
    return this.#volumes.measure(volumeId, stopAt)
  }

  storage(): Promise<StorageReport> {
    return this.#storageMeter().measure()
  }

  measureWritten(burrow: Burrow, stopAt: StopAt = {}): Measurement {
    const { paths, record } = this.#own(burrow)
    return this.#storageMeter().written(paths.upper, record.layers, stopAt)
  }

  #storageMeter(): StorageMeter {
    this.#storage ??= new StorageMeter(this.#host.layout, this.#canSleep().store)
    return this.#storage
  }

  async deleteSnapshot(snapshotId: SnapshotId): Promise<void> {
    await this.#canSleep().delete(snapshotId)
  }

  async verifySnapshot(snapshotId: SnapshotId): Promise<void> {
    await this.#canSleep().verify(snapshotId)
  }

  async listParts(snapshotId?: SnapshotId): Promise<readonly StoredPart[]> {
    return this.#canSleep().listParts(snapshotId)
  }

  /** Pre: `listParts` of an engine of this kind has made it. */
  async checkPart(part: StoredPart, options: CheckPartOptions): Promise<PartCheck> {
    const found = await checkPart(part as LinuxPart, options)
    if (found.damage === undefined) return found
    // What was deleted or replaced while it was read is not damaged: another link to it is read, if there is one.
    const current = (await this.#canSleep().listParts()).find(({ key }) => key === part.key)
    if (current === undefined) return { readBytes: found.readBytes }
    return isSamePlace(current, part as LinuxPart) ? found : checkPart(current, options)
  }

  /**
   * Makes snapshots of sandboxes that sleep faster to restore, where there is something to gain; answers which. It happens by
   * itself, soon after a sandbox has gone to sleep; this is for those who want to wait for it.
   */
  async upkeep(): Promise<SnapshotId[]> {
    const snapshots = await this.#canSleep().store.list()
    return this.#upkeep.run(snapshots.map(({ id }) => id))
  }

  async adoptBurrows(): Promise<AdoptedBurrows> {
    const { burrows, lost } = await adoptBurrows(this.#host.layout, this.#host.hierarchies)
    for (const burrow of burrows) this.#hold(burrow)
    await this.#sleeper?.collectLeftovers()
    await this.#volumes.removeDeleted()
    // What the one before did not come to.
    for (const { id } of (await this.#sleeper?.store.list()) ?? [])
      this.#upkeep.schedule(id, UPKEEP_AFTER_START_MS)
    return { burrows, lost }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#upkeep[Symbol.asyncDispose]()
    for (const burrow of this.#burrows) burrow.release()
    this.#burrows.clear()
    await this.#sleeper?.[Symbol.asyncDispose]()
    await this.#host.spares[Symbol.asyncDispose]()
    await this.#parent.remove()
  }

  #canSleep(): Sleeper {
    if (this.#sleeper !== undefined) return this.#sleeper
    throw new DormouseError(
      'host_unsupported',
      'This host has no CRIU that works, so sandboxes cannot be saved.',
    )
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
      // What it came from is all that is left of its sandbox, as of one that was frozen and is asleep on disk now.
      if (parent !== undefined && reason !== 'stored') this.#upkeep.schedule(parent)
    })
    return burrow
  }
}

function throwExplained(error: unknown): never {
  throw explainFullDisk(error)
}
