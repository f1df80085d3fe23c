import {
  burrowLimitsSchema,
  DormouseError,
  isSnapshotId,
  parseInput,
  type SnapshotId,
} from '@dormouse/contracts'
import type {
  ForkedBurrow,
  ForkOptions,
  LimitRestore,
  RestoreOptions,
  SavedBurrow,
  SnapshotOptions,
} from '@dormouse/engine'
import { bootBurrow } from '../burrow/boot-burrow.ts'
import type { SnapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import type { Criu } from '../criu/find-criu.ts'
import { guestToolsDir } from '../guest-tools.ts'
import { FileMemory } from '../host/remember-file.ts'
import { LONGEST_CHAIN_LAYERS } from '../storage/choose-run.ts'
import { removeUnpublished } from '../storage/generation.ts'
import { keepUp } from '../storage/keep-up.ts'
import { makeLayerSums } from '../storage/layer-sums.ts'
import { reading } from '../storage/readers.ts'
import { allParts, checkPart, type LinuxPart, partsOfSnapshots } from '../storage/stored-parts.ts'
import { getTemplateBuild, type Template } from '../template/template-store.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'
import { requireVolumes } from '../volume/volume-store.ts'
import { Collector } from './collector.ts'
import { describeSnapshot } from './describe-snapshot.ts'
import { Dumper } from './dumper.ts'
import { Leftovers } from './leftovers.ts'
import type { Manifest } from './manifest.ts'
import { type Origin, Reserve } from './reserve.ts'
import { restoreFork } from './restore-fork.ts'
import { type RestoreSnapshot, restoreSnapshot } from './restore-snapshot.ts'
import { removeSaverCgroups, type SaverHost } from './saver.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { takeFiles } from './take-files.ts'
import { type TakenSnapshot, takeSnapshot } from './take-snapshot.ts'
import { findTemplateSnapshot, makeTemplateSnapshot, removeUnfinished } from './template-snapshot.ts'
import { damaged, refuseNewerCriu, unusable, verifySnapshot } from './verify-snapshot.ts'

/** Of sandboxes that wake often, and of forks; more only cost reading again. */
const REMEMBERED_SNAPSHOTS = 256
/** Most of what was just written is in memory still: reading it takes CPU, and nobody waits for it. */
const SUMS_BYTES_PER_SECOND = 256 * 1024 ** 2

export interface SleeperParts {
  readonly host: BurrowHost
  readonly criu: Criu
  readonly dataDir: string
  /** What a burrow that boots sees as /.dormouse. */
  readonly toolsDir: string
}

interface FoundSnapshot {
  readonly paths: SnapshotPaths
  readonly manifest: Manifest
}

interface SavedLinuxBurrow extends SavedBurrow {
  readonly burrow?: LinuxBurrow
}

interface ForkedLinuxBurrow extends ForkedBurrow {
  readonly parent?: LinuxBurrow
  readonly children: readonly LinuxBurrow[]
}

export type CreateFromTemplate = Required<Pick<RestoreSnapshot, 'limits'>> &
  Pick<RestoreSnapshot, 'sandboxId' | 'template' | 'toolsDir' | 'volumes' | 'user' | 'env' | 'signal'>

/** Create, snapshot, restore, fork and rollback, which are all made of two operations: take and restore. */
export class Sleeper implements AsyncDisposable {
  readonly store: SnapshotStore
  readonly #parts: SleeperParts
  readonly #dumper: Dumper
  readonly #collector: Collector
  readonly #leftovers = new Leftovers()
  readonly #reserve: Reserve
  readonly #found = new FileMemory<FoundSnapshot>(REMEMBERED_SNAPSHOTS)

  constructor(parts: SleeperParts) {
    this.#parts = parts
    this.#dumper = new Dumper(parts.criu, this.#saverHost())
    this.store = new SnapshotStore(parts.host.layout)
    this.#collector = new Collector(this.store)
    this.#reserve = new Reserve(parts.host, (fill) =>
      this.#collector.whileTaking(async () => {
        await this.#collector.untilCollected()
        return fill()
      }),
    )
  }

  /** A new sandbox from its template's snapshot; undefined when there is none that can be used. */
  async create({ template, toolsDir, ...request }: CreateFromTemplate): Promise<LinuxBurrow | undefined> {
    const found = await findTemplateSnapshot({ template, toolsDir, dumper: this.#dumper })
    if (found === undefined) return undefined
    this.#dumper.prepare()
    request.signal?.throwIfAborted()
    return this.#createFrom({ ...found, template, toolsDir }, request)
  }

  async #createFrom(
    origin: Origin,
    request: Omit<CreateFromTemplate, 'template' | 'toolsDir'>,
  ): Promise<LinuxBurrow> {
    const { host } = this.#parts
    const who = { ...request, reason: 'create' as const, reseed: true }
    // One that waits has no volumes.
    if (who.volumes.length > 0) return restoreSnapshot(host, { ...origin, ...who })
    const burrow =
      (await this.#reserve.claim(origin, who)) ?? (await restoreSnapshot(host, { ...origin, ...who }))
    this.#reserve.expect(origin, burrow)
    return burrow
  }

  async isTemplatePrepared(template: Template, toolsDir: string): Promise<boolean> {
    return (await findTemplateSnapshot({ template, toolsDir, dumper: this.#dumper })) !== undefined
  }

  async prepareTemplate(template: Template, toolsDir: string): Promise<void> {
    if (await this.isTemplatePrepared(template, toolsDir)) return
    await removeUnfinished(template)
    await makeTemplateSnapshot(this.#parts.host, { template, toolsDir, dumper: this.#dumper })
  }

  /** Somebody is likely to create a sandbox of this template. */
  async expectCreate(
    template: Template,
    toolsDir: string,
    { hasNetwork }: { hasNetwork: boolean },
  ): Promise<void> {
    const found = await findTemplateSnapshot({ template, toolsDir, dumper: this.#dumper })
    if (found !== undefined) this.#reserve.expect({ ...found, template, toolsDir }, { hasNetwork })
  }

  forgetTemplate(name: string): Promise<void> {
    return this.#reserve.forget(({ template }) => template.name === name)
  }

  async snapshot(
    burrow: LinuxBurrow,
    { leave, kind = 'full', limitRestore = atOnce }: SnapshotOptions,
  ): Promise<SavedLinuxBurrow> {
    if (kind === 'files') return this.#snapshotFiles(burrow, leave)
    const { manifest, ended, syncError } = await this.#take(burrow)
    const snapshot = describeSnapshot(manifest)
    if (leave === 'gone' || syncError !== undefined) {
      const endError = await ended.then(
        () => undefined,
        (error: unknown) => error,
      )
      const resumeError = syncError ?? endError
      return { snapshot, ...(resumeError !== undefined && { resumeError }) }
    }
    const { sandboxId } = burrow
    const next = limitRestore(sandboxId, () => this.restore(manifest.id, { sandboxId, reseed: false }))
    // The next burrow does not use what is left of this one.
    await Promise.allSettled([next, ended])
    try {
      const resumed = await next
      if (leave === 'frozen') await this.#freezeOrEnd(resumed)
      return { snapshot, burrow: resumed }
    } catch (resumeError) {
      return { snapshot, resumeError }
    }
  }

  async #freezeOrEnd(burrow: LinuxBurrow): Promise<void> {
    await burrow.freeze().catch(async (error: unknown) => {
      await this.#giveUp(burrow)
      throw error
    })
  }

  /** Post: it is gone, or will be. */
  async #giveUp(burrow: LinuxBurrow): Promise<void> {
    await burrow.destroy().catch(() => this.#leftovers.destroy(burrow))
  }

  /** Post: it is on disk. `ended` settles when the burrow is gone. */
  async #take(burrow: LinuxBurrow): Promise<Omit<TakenSnapshot, 'rest'>> {
    const { host, dataDir } = this.#parts
    const toolsDir = guestToolsDir(dataDir, burrow.record.tools)
    const dumper = this.#dumper
    const { rest, ...taken } = await this.#collector.whileTaking(() =>
      takeSnapshot(host, { burrow, dumper, toolsDir }),
    )
    this.#leftovers.removeTree(rest)
    taken.ended.catch(() => this.#leftovers.destroy(burrow))
    await this.#shorten(taken.manifest)
    return taken
  }

  /** One that is awake again before upkeep comes to it must not pile up layers until it cannot be saved any more. */
  async #shorten({ id, layers }: Manifest): Promise<void> {
    if (layers.length <= LONGEST_CHAIN_LAYERS) return
    // The snapshot is as good without it, this time.
    await this.keepUp(id, new AbortController().signal).catch(() => {})
  }

  async #snapshotFiles(burrow: LinuxBurrow, leave: SnapshotOptions['leave']): Promise<SavedLinuxBurrow> {
    const { layout } = this.#parts.host
    const { record, paths } = burrow
    const held = await burrow.holdStill()
    const keepsFiles = leave !== 'gone'
    const take = () => takeFiles(layout, { record, paths, keepsFiles })
    const { manifest, syncError } = await this.#collector.whileTaking(take).catch(async (error: unknown) => {
      await held.letGo()
      throw error
    })
    const snapshot = describeSnapshot(manifest)
    if (!keepsFiles) {
      await this.#endWithoutFiles(burrow, manifest.id)
      return { snapshot, ...(syncError !== undefined && { resumeError: syncError }) }
    }
    await held.letGo()
    if (leave === 'running') return { snapshot, burrow }
    return burrow.freeze().then(
      () => ({ snapshot, burrow }),
      (resumeError: unknown) => ({ snapshot, burrow, resumeError }),
    )
  }

  /** What is left of it is nothing that anybody could miss. */
  async #endWithoutFiles(burrow: LinuxBurrow, id: SnapshotId): Promise<void> {
    await burrow.endAfterSnapshot(id).catch(() => this.#leftovers.destroy(burrow))
  }

  restore(id: SnapshotId, options: RestoreOptions): Promise<LinuxBurrow> {
    return reading(this.#parts.host.layout.snapshot(id).dir, () => this.#restore(id, options))
  }

  async #restore(id: SnapshotId, options: RestoreOptions): Promise<LinuxBurrow> {
    const { paths, manifest } = await this.#find(id)
    const { host, dataDir } = this.#parts
    if (options.of !== undefined && manifest.sandboxId !== options.of)
      throw unusable('it was taken of another sandbox')
    const merged = options.limits === undefined ? manifest.limits : { ...manifest.limits, ...options.limits }
    const limits = parseInput(burrowLimitsSchema, merged, 'limits')
    const volumes = parseInput(volumeMountsSchema, options.volumes ?? manifest.volumes, 'volumes')
    requireVolumes(volumes, host.layout.volumesDir)
    const template = await getTemplateBuild(dataDir, manifest.template)
    this.#dumper.prepare()
    if (manifest.kind === 'files') {
      const { sandboxId, user, env, signal } = options
      const request = { sandboxId, template: template.name, ...(user && { user }), ...(env && { env }) }
      const files = { layers: manifest.layers, snapshotId: id }
      const { toolsDir } = this.#parts
      await this.store.checkLayers(manifest)
      return bootBurrow(host, { request, volumes, limits, template, toolsDir, files }, signal)
    }
    refuseNewerCriu(manifest, this.#dumper.criuVersion)
    const origin = { paths, manifest, template, toolsDir: guestToolsDir(dataDir, manifest.tools) }
    if (options.reason === 'create') {
      const { sandboxId, user, env, signal } = options
      return this.#createFrom(origin, { sandboxId, limits, volumes, user, env, signal })
    }
    return restoreSnapshot(host, {
      ...origin,
      sandboxId: options.sandboxId,
      limits,
      volumes,
      reason: options.reason ?? 'resume',
      reseed: options.reseed ?? true,
      signal: options.signal,
      ...(options.env !== undefined && { env: options.env }),
    })
  }

  #find(id: SnapshotId): Promise<FoundSnapshot> {
    if (!isSnapshotId(id)) return this.store.get(id)
    return this.#found.get(this.#parts.host.layout.snapshot(id).manifest, () => this.store.get(id))
  }

  async fork(
    burrow: LinuxBurrow,
    { limitRestore = atOnce, ...options }: ForkOptions,
  ): Promise<ForkedLinuxBurrow> {
    const { sandboxIds } = options
    if (sandboxIds.length === 0)
      throw new DormouseError('invalid_argument', 'fork: sandboxIds: is empty (saw [])')
    // Made while the snapshot is taken, which waits for the disk most of the time.
    const withdraw = this.#parts.host.spares.expect(sandboxIds.length + 1)
    const { manifest, ended, syncError } = await this.#take(burrow).catch((error: unknown) => {
      withdraw()
      throw error
    })
    const snapshot = describeSnapshot(manifest)
    if (syncError !== undefined) {
      withdraw()
      await Promise.allSettled([ended])
      return { snapshot, children: [], resumeError: syncError }
    }
    const restored = restoreFork({
      ...options,
      snapshot,
      parentId: burrow.sandboxId,
      limitRestore,
      restore: (as) => this.restore(snapshot.id, as),
      giveUp: (one) => this.#giveUp(one),
    })
    await Promise.allSettled([restored, ended])
    return { snapshot, ...(await restored) }
  }

  verify(id: SnapshotId): Promise<void> {
    return reading(this.#parts.host.layout.snapshot(id).dir, async () => {
      const { paths, manifest } = await this.store.get(id)
      await this.store.checkLayers(manifest)
      if (manifest.kind === 'full') {
        refuseNewerCriu(manifest, this.#dumper.criuVersion)
        await verifySnapshot(paths, manifest)
      }
      for (const part of partsOfSnapshots(this.#parts.host.layout, [manifest])) {
        const { damage } = await checkPart(part, {})
        if (damage !== undefined) throw damaged(damage)
      }
    })
  }

  /** Of one snapshot, or of all and of the templates. */
  async listParts(id?: SnapshotId): Promise<LinuxPart[]> {
    const { host, dataDir } = this.#parts
    if (id !== undefined) return partsOfSnapshots(host.layout, [(await this.store.get(id)).manifest])
    return allParts(host.layout, dataDir, await this.store.list())
  }

  async delete(id: SnapshotId): Promise<void> {
    await this.#reserve.forget(({ manifest }) => manifest.id === id)
    await this.store.delete(id)
    await this.#collector.collect()
  }

  /** Makes a faster version of a snapshot, if there is something to gain; answers whether it did. */
  async keepUp(id: SnapshotId, signal: AbortSignal): Promise<boolean> {
    const { host, dataDir } = this.#parts
    let mayLeave = true
    try {
      return await this.#collector.whileTaking(async () => {
        await this.#collector.untilCollected()
        mayLeave = await keepUp(id, { layout: host.layout, dataDir, store: this.store, signal })
        return mayLeave
      })
    } finally {
      // Most often nothing was done.
      if (mayLeave) await this.#collector.collect()
    }
  }

  /** Makes checksums of layers of a snapshot that have none yet, so that `verify` can tell whether they have changed. */
  async makeSums(id: SnapshotId, signal: AbortSignal): Promise<void> {
    const { manifest } = await this.store.get(id)
    const pace = { bytesPerSecond: SUMS_BYTES_PER_SECOND, signal }
    await makeLayerSums(this.#parts.host.layout, manifest.layers, pace).catch(async (error: unknown) => {
      // Layers go with the snapshot.
      await this.store.get(id)
      throw error
    })
  }

  /** Removes what was left by a server that is gone; what cannot be removed stays. Pre: no other engine uses the state directory. */
  async collectLeftovers(): Promise<void> {
    if (!this.#collector.isTaking) {
      await removeUnpublished(this.#parts.host.layout).catch(() => {})
      await this.store.removeUnfinished().catch(() => {})
    }
    await this.#collector.collect()
    await removeSaverCgroups(this.#saverHost()).catch(() => {})
  }

  #saverHost(): SaverHost {
    const { hierarchies, layout } = this.#parts.host
    return { hierarchies, cgroupName: layout.cgroupName }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      [this.#dumper, this.#reserve, this.#leftovers, this.#collector].map((each) =>
        each[Symbol.asyncDispose](),
      ),
    )
  }

  async rollback(burrow: LinuxBurrow, id: SnapshotId): Promise<LinuxBurrow> {
    // Restored beside the old one, which ends only when the new one answers.
    const { sandboxId, record } = burrow
    const next = await this.restore(id, { sandboxId, reason: 'rollback', volumes: record.volumes })
    await this.#giveUp(burrow)
    return next
  }
}

const atOnce: LimitRestore = (_sandboxId, restore) => restore()
