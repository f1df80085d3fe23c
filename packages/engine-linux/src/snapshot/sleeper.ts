import {
  burrowLimitsSchema,
  DormouseError,
  isSnapshotId,
  parseInput,
  type SnapshotId,
} from '@dormouse/contracts'
import type { Admit, ForkOptions, RestoreOptions, Snapshot, SnapshotOptions } from '@dormouse/engine'
import { bootBurrow } from '../burrow/boot-burrow.ts'
import type { SnapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import type { Criu } from '../criu/find-criu.ts'
import { guestToolsDir } from '../guest-tools.ts'
import { FileMemory } from '../host/remember-file.ts'
import { fulfilled, settleAll } from '../host/settle-all.ts'
import { LONGEST_CHAIN_LAYERS } from '../storage/choose-run.ts'
import { removeUnpublished } from '../storage/generation.ts'
import { findChange, takeInventories } from '../storage/inventory.ts'
import { keepUp } from '../storage/keep-up.ts'
import { reading } from '../storage/readers.ts'
import { getTemplateBuild, type Template } from '../template/template-store.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'
import { requireVolumes } from '../volume/volume-store.ts'
import { Collector } from './collector.ts'
import { Dumper } from './dumper.ts'
import { Leftovers } from './leftovers.ts'
import type { Manifest } from './manifest.ts'
import { Reserve } from './reserve.ts'
import { type RestoreSnapshot, restoreSnapshot } from './restore-snapshot.ts'
import { savedAs, savedBut } from './saved-but.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { takeFiles } from './take-files.ts'
import { takeSnapshot } from './take-snapshot.ts'
import { findTemplateSnapshot, makeTemplateSnapshot, removeUnfinished } from './template-snapshot.ts'
import { refuseNewerCriu, unusable, verifySnapshot } from './verify-snapshot.ts'

/** Restores are bound by the CPU: more of them at once only make each slower. */
const RESTORES_AT_ONCE = 4
/** Of sandboxes that wake often, and of forks; more only cost reading again. */
const REMEMBERED_SNAPSHOTS = 256

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
    this.#dumper = new Dumper(parts.criu)
    this.store = new SnapshotStore(parts.host.layout)
    this.#collector = new Collector(this.store)
    this.#reserve = new Reserve(parts.host)
  }

  /** A new sandbox from its template's snapshot; undefined when there is none that can be used. */
  async create({ template, toolsDir, ...request }: CreateFromTemplate): Promise<LinuxBurrow | undefined> {
    const { host } = this.#parts
    const found = await findTemplateSnapshot({ template, toolsDir, dumper: this.#dumper })
    if (found === undefined) return undefined
    this.#dumper.prepare()
    request.signal?.throwIfAborted()
    const origin = { ...found, template, toolsDir }
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
    return this.#reserve.forget(name)
  }

  async snapshot(
    burrow: LinuxBurrow,
    { leave, kind = 'full', admit = atOnce }: SnapshotOptions,
  ): Promise<{ snapshot: Snapshot; burrow?: LinuxBurrow }> {
    if (kind === 'files') return this.#snapshotFiles(burrow, leave)
    const { manifest, ended } = await this.#take(burrow)
    const snapshot = describe(manifest)
    if (leave === 'gone') {
      await ended.catch((cause: unknown) => {
        throw savedBut(manifest.id, 'not all of its burrow could be removed', cause)
      })
      return { snapshot }
    }
    const { sandboxId } = burrow
    const next = admit(sandboxId, () => this.restore(manifest.id, { sandboxId, reseed: false }))
    // Whoever goes on has no use for what is left of the one before.
    await Promise.allSettled([next, ended])
    const asleep = (cause: unknown) => {
      throw savedBut(manifest.id, 'could not go on from there', cause)
    }
    const going = await next.catch(asleep)
    if (leave === 'frozen')
      await going.freeze().catch(async (cause: unknown) => {
        await this.#giveUp(going)
        asleep(cause)
      })
    return { snapshot, burrow: going }
  }

  /** Post: it is gone, or will be. */
  async #giveUp(burrow: LinuxBurrow): Promise<void> {
    await burrow.destroy().catch(() => this.#leftovers.destroy(burrow))
  }

  /** Post: it is on disk. `ended` settles when the burrow is gone. */
  async #take(burrow: LinuxBurrow): Promise<{ manifest: Manifest; ended: Promise<void> }> {
    const { host, dataDir } = this.#parts
    const toolsDir = guestToolsDir(dataDir, burrow.record.tools)
    const dumper = this.#dumper
    const { manifest, rest, ended } = await this.#collector.whileTaking(() =>
      takeSnapshot(host, { burrow, dumper, toolsDir }),
    )
    this.#leftovers.removeTree(rest)
    ended.catch(() => this.#leftovers.destroy(burrow))
    await this.#shorten(manifest)
    return { manifest, ended }
  }

  /** One that is awake again before upkeep comes to it must not pile up layers until it cannot be saved any more. */
  async #shorten({ id, layers }: Manifest): Promise<void> {
    if (layers.length <= LONGEST_CHAIN_LAYERS) return
    // The snapshot is as good without it, this time.
    await this.keepUp(id, new AbortController().signal).catch(() => {})
  }

  async #snapshotFiles(burrow: LinuxBurrow, leave: SnapshotOptions['leave']) {
    const { layout } = this.#parts.host
    const { record, paths } = burrow
    const held = await burrow.holdStill()
    const keepsFiles = leave !== 'gone'
    const take = () => takeFiles(layout, { record, paths, keepsFiles })
    const manifest = await this.#collector.whileTaking(take).catch(async (error: unknown) => {
      const snapshotId = savedAs(error)
      if (keepsFiles || snapshotId === undefined) await held.letGo()
      else await this.#endWithoutFiles(burrow, snapshotId)
      throw error
    })
    const snapshot = describe(manifest)
    if (!keepsFiles) {
      await this.#endWithoutFiles(burrow, manifest.id)
      return { snapshot }
    }
    await held.letGo()
    if (leave === 'frozen')
      await burrow.freeze().catch((cause: unknown) => {
        throw savedBut(manifest.id, 'could not be frozen', cause)
      })
    return { snapshot, burrow }
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
    return restoreSnapshot(host, {
      paths,
      manifest,
      template,
      toolsDir: guestToolsDir(dataDir, manifest.tools),
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
    { sandboxIds, onParent, admit = atOnce, reseed = true, signal }: ForkOptions,
  ) {
    if (sandboxIds.length === 0)
      throw new DormouseError('invalid_argument', 'fork: sandboxIds: is empty (saw [])')
    const { spares } = this.#parts.host
    // Made while the snapshot is taken, which waits for the disk most of the time.
    const withdraw = spares.expect(sandboxIds.length + 1)
    const { manifest, ended } = await this.#take(burrow).catch((error: unknown) => {
      withdraw()
      throw error
    })
    const snapshot = describe(manifest)
    const options = { reason: 'fork' as const, reseed }
    const goOn = async () => {
      const { sandboxId } = burrow
      const parent = await admit(sandboxId, () => this.restore(snapshot.id, { ...options, sandboxId }))
      try {
        onParent?.({ burrow: parent, snapshot })
      } catch (error) {
        await this.#giveUp(parent)
        throw error
      }
      return parent
    }
    const children = sandboxIds.map(
      (sandboxId) => () =>
        admit(sandboxId, () =>
          this.restore(snapshot.id, { ...options, sandboxId, ...(signal && { signal }) }),
        ),
    )
    const [parent, ...restored] = await settleAll([goOn, ...children], RESTORES_AT_ONCE)
    await Promise.allSettled([ended])
    const failed = restored.find((result) => result.status === 'rejected')
    if (parent?.status === 'fulfilled' && failed === undefined)
      return { snapshot, parent: parent.value, children: restored.flatMap(fulfilled) }
    await Promise.all(restored.flatMap(fulfilled).map((child) => this.#giveUp(child)))
    if (parent?.status === 'rejected')
      throw savedBut(snapshot.id, 'could not go on from there', parent.reason)
    throw failed?.reason
  }

  verify(id: SnapshotId): Promise<void> {
    return reading(this.#parts.host.layout.snapshot(id).dir, async () => {
      const { paths, manifest } = await this.store.get(id)
      await this.store.checkLayers(manifest)
      const change = await findChange(this.#parts.host.layout, manifest.layers)
      if (change !== undefined) throw unusable(change)
      if (manifest.kind === 'files') return
      refuseNewerCriu(manifest, this.#dumper.criuVersion)
      await verifySnapshot(paths, manifest, 'all')
    })
  }

  async delete(id: SnapshotId): Promise<void> {
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

  /** Looks through layers of a snapshot that nobody has looked through yet, so that `verify` can tell whether they have changed. */
  async takeInventories(id: SnapshotId, signal: AbortSignal): Promise<void> {
    const { manifest } = await this.store.get(id)
    await takeInventories(this.#parts.host.layout, manifest.layers, signal).catch(async (error: unknown) => {
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
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#dumper[Symbol.dispose]()
    await Promise.all(
      [this.#reserve, this.#leftovers, this.#collector].map((each) => each[Symbol.asyncDispose]()),
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

const atOnce: Admit = (_sandboxId, restore) => restore()

export function describe(manifest: Manifest): Snapshot {
  return {
    id: manifest.id,
    sandboxId: manifest.sandboxId,
    kind: manifest.kind,
    ...(manifest.parent !== undefined && { parent: manifest.parent }),
    template: manifest.template.name,
    createdAt: new Date(manifest.createdAt),
    limits: manifest.limits,
    volumes: manifest.volumes,
    bytes: manifest.bytes,
  }
}
