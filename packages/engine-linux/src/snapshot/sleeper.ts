import {
  burrowLimitsSchema,
  DormouseError,
  isSnapshotId,
  parseInput,
  type SnapshotId,
} from '@dormouse/contracts'
import type { ForkOptions, RestoreOptions, Snapshot, SnapshotOptions } from '@dormouse/engine'
import { bootBurrow } from '../burrow/boot-burrow.ts'
import type { SnapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import type { Criu } from '../criu/find-criu.ts'
import { guestToolsDir } from '../guest-tools.ts'
import { removeTree } from '../host/publish-directory.ts'
import { FileMemory } from '../host/remember-file.ts'
import { fulfilled, settleAll } from '../host/settle-all.ts'
import { LONGEST_CHAIN_LAYERS } from '../storage/choose-run.ts'
import { removeUnpublished } from '../storage/generation.ts'
import { keepUp } from '../storage/keep-up.ts'
import { reading } from '../storage/readers.ts'
import { getTemplateBuild, type Template } from '../template/template-store.ts'
import { volumeMountsSchema } from '../volume/volume-mounts.ts'
import { requireVolumes } from '../volume/volume-store.ts'
import { Dumper } from './dumper.ts'
import type { Manifest } from './manifest.ts'
import { type RestoreSnapshot, restoreSnapshot } from './restore-snapshot.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { takeFiles } from './take-files.ts'
import { takeSnapshot } from './take-snapshot.ts'
import { findTemplateSnapshot, makeTemplateSnapshot, removeUnfinished } from './template-snapshot.ts'
import { verifySnapshot } from './verify-snapshot.ts'

/** Restores are bound by the CPU: more of them at once only make each slower. */
const RESTORES_AT_ONCE = 4
/** Of sandboxes that wake often, and of forks; more only cost reading again. */
const REMEMBERED_SNAPSHOTS = 256

/** Layers that nobody needs any more take disk space a little longer; nothing else depends on them. */
const COLLECTIONS_APART_MS = 1_000

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

export type CreateFromTemplate = Pick<
  RestoreSnapshot,
  'sandboxId' | 'template' | 'toolsDir' | 'limits' | 'volumes' | 'user' | 'env' | 'signal'
>

/** Create, snapshot, restore, fork and rollback, which are all made of two operations: take and restore. */
export class Sleeper implements AsyncDisposable {
  readonly store: SnapshotStore
  readonly #parts: SleeperParts
  readonly #dumper: Dumper
  /** What is being removed. */
  readonly #removals = new Set<Promise<void>>()
  readonly #found = new FileMemory<FoundSnapshot>(REMEMBERED_SNAPSHOTS)
  /** A snapshot being taken, or kept up, has layers that nothing refers to yet: nothing is collected meanwhile. */
  #taking = 0
  #isCollectionDue = false
  #restsUntil = 0
  #timer: NodeJS.Timeout | undefined
  #collecting: Promise<void> | undefined

  constructor(parts: SleeperParts) {
    this.#parts = parts
    this.#dumper = new Dumper(parts.criu)
    this.store = new SnapshotStore(parts.host.layout)
  }

  /** A new sandbox from its template's snapshot; undefined when there is none that can be used. */
  async create({ template, toolsDir, ...request }: CreateFromTemplate): Promise<LinuxBurrow | undefined> {
    const { host } = this.#parts
    const found = await findTemplateSnapshot({ template, toolsDir, dumper: this.#dumper })
    if (found === undefined) return undefined
    this.#dumper.prepare()
    return restoreSnapshot(host, {
      ...found,
      ...request,
      template,
      toolsDir,
      reason: 'create',
      reseed: true,
    })
  }

  async isTemplatePrepared(template: Template, toolsDir: string): Promise<boolean> {
    return (await findTemplateSnapshot({ template, toolsDir, dumper: this.#dumper })) !== undefined
  }

  async prepareTemplate(template: Template, toolsDir: string): Promise<void> {
    if (await this.isTemplatePrepared(template, toolsDir)) return
    await removeUnfinished(template)
    await makeTemplateSnapshot(this.#parts.host, { template, toolsDir, dumper: this.#dumper })
  }

  async snapshot(
    burrow: LinuxBurrow,
    { leave, kind = 'full' }: SnapshotOptions,
  ): Promise<{ snapshot: Snapshot; burrow?: LinuxBurrow }> {
    if (kind === 'files') return this.#snapshotFiles(burrow, leave)
    const { manifest, ended } = await this.#take(burrow)
    const snapshot = describe(manifest)
    const next =
      leave === 'gone'
        ? undefined
        : await this.restore(manifest.id, { sandboxId: burrow.sandboxId, reseed: false }).catch(
            async (cause: unknown) => {
              await ended.catch(() => {})
              throw savedButAsleep(manifest.id, cause)
            },
          )
    await ended.catch(async (error: unknown) => {
      await next?.destroy()
      throw error
    })
    if (next === undefined) return { snapshot }
    if (leave === 'frozen') await next.freeze()
    return { snapshot, burrow: next }
  }

  /** Post: it is on disk. `ended` settles when the burrow is gone. */
  async #take(burrow: LinuxBurrow): Promise<{ manifest: Manifest; ended: Promise<void> }> {
    const { host, dataDir } = this.#parts
    const toolsDir = guestToolsDir(dataDir, burrow.record.tools)
    const dumper = this.#dumper
    const { manifest, rest, ended } = await this.#whileTaking(() =>
      takeSnapshot(host, { burrow, dumper, toolsDir }),
    )
    this.#removeLater(rest)
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
    const manifest = await this.#whileTaking(() => takeFiles(layout, { record, paths, keepsFiles })).catch(
      async (error: unknown) => {
        await held.letGo()
        throw error
      },
    )
    const snapshot = describe(manifest)
    if (!keepsFiles) {
      await burrow.endAfterSnapshot(manifest.id)
      return { snapshot }
    }
    await held.letGo()
    if (leave === 'frozen') await burrow.freeze()
    return { snapshot, burrow }
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

  async fork(burrow: LinuxBurrow, { sandboxIds, onParent, reseed = true, signal }: ForkOptions) {
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
      const parent = await this.restore(snapshot.id, { ...options, sandboxId: burrow.sandboxId })
      try {
        onParent?.({ burrow: parent, snapshot })
      } catch (error) {
        await parent.destroy()
        throw error
      }
      return parent
    }
    const children = sandboxIds.map(
      (sandboxId) => () => this.restore(snapshot.id, { ...options, sandboxId, ...(signal && { signal }) }),
    )
    const [parent, ...restored] = await settleAll([goOn, ...children], RESTORES_AT_ONCE)
    const [end] = await Promise.allSettled([ended])
    const failed = [...restored, end].find((result) => result.status === 'rejected')
    if (parent?.status === 'fulfilled' && failed === undefined)
      return { snapshot, parent: parent.value, children: restored.flatMap(fulfilled) }
    await Promise.allSettled(restored.flatMap(fulfilled).map((child) => child.destroy()))
    if (parent?.status === 'rejected') throw savedButAsleep(snapshot.id, parent.reason)
    throw failed?.reason
  }

  verify(id: SnapshotId): Promise<void> {
    return reading(this.#parts.host.layout.snapshot(id).dir, async () => {
      const { paths, manifest } = await this.store.get(id)
      await this.store.checkLayers(manifest)
      if (manifest.kind === 'full') await verifySnapshot(paths, manifest, 'all')
    })
  }

  async delete(id: SnapshotId): Promise<void> {
    await this.store.delete(id)
    this.#isCollectionDue = true
    await this.#collect()
  }

  /** Makes a faster version of a snapshot, if there is something to gain; answers whether it did. */
  async keepUp(id: SnapshotId, signal: AbortSignal): Promise<boolean> {
    const { host, dataDir } = this.#parts
    this.#taking += 1
    let mayLeave = true
    try {
      // What is being collected now was chosen before there was anything of the new version.
      await this.#collecting?.catch(() => {})
      mayLeave = await keepUp(id, { layout: host.layout, dataDir, store: this.store, signal })
      return mayLeave
    } finally {
      this.#taking -= 1
      // Most often nothing was done. A collection reads every manifest there is.
      if (mayLeave) this.#isCollectionDue = true
      await this.#collect()
    }
  }

  /** Removes what was left by a server that is gone. Pre: no other engine uses the state directory. */
  async collectLeftovers(): Promise<void> {
    this.#isCollectionDue = true
    if (this.#taking === 0) await removeUnpublished(this.#parts.host.layout)
    await this.#collect()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#dumper[Symbol.dispose]()
    clearTimeout(this.#timer)
    await Promise.all([...this.#removals, this.#collecting?.catch(() => {})])
  }

  async #whileTaking<Result>(take: () => Promise<Result>): Promise<Result> {
    this.#taking += 1
    return take().finally(() => {
      this.#taking -= 1
      this.#collectLater()
    })
  }

  /** Nobody has to wait for it; what is left because of a failure is collected later. */
  #removeLater(path: string): void {
    const removal = removeTree(path)
      .catch(() => {})
      .finally(() => this.#removals.delete(removal))
    this.#removals.add(removal)
  }

  /** A collection reads every manifest there is: many deletions in a row share one. */
  async #collect(): Promise<void> {
    if (this.#taking > 0 || !this.#isCollectionDue) return
    if (performance.now() < this.#restsUntil) return this.#collectLater()
    this.#isCollectionDue = false
    this.#collecting = this.store.collect().then((isComplete) => {
      if (isComplete) return
      this.#isCollectionDue = true
      this.#collectLater()
    })
    this.#collecting.catch(() => {})
    await this.#collecting.finally(() => {
      this.#restsUntil = performance.now() + COLLECTIONS_APART_MS
    })
  }

  #collectLater(): void {
    if (!this.#isCollectionDue) return
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      // What stays because of a failure is collected with the next one.
      this.#collect().catch(() => {})
    }, COLLECTIONS_APART_MS).unref()
  }

  async rollback(burrow: LinuxBurrow, id: SnapshotId): Promise<LinuxBurrow> {
    // Restored beside the old one, which ends only when the new one answers.
    const { sandboxId, record } = burrow
    const next = await this.restore(id, { sandboxId, reason: 'rollback', volumes: record.volumes })
    await burrow.destroy()
    return next
  }
}

/** The burrow is gone by then, so the caller must learn where its state is. */
function savedButAsleep(snapshotId: SnapshotId, cause: unknown): DormouseError {
  return new DormouseError('restore_failed', 'The sandbox was saved, but could not go on from there.', {
    hint: 'Nothing is lost: restore the snapshot named in the details.',
    details: { snapshotId },
    cause,
  })
}

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
