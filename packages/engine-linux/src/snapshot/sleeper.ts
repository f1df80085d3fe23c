import {
  burrowLimitsSchema,
  DormouseError,
  isSnapshotId,
  parseInput,
  type SnapshotId,
} from '@dormouse/contracts'
import type { ForkOptions, RestoreOptions, Snapshot, SnapshotOptions } from '@dormouse/engine'
import type { SnapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import type { Criu } from '../criu/find-criu.ts'
import { guestToolsDir } from '../guest-tools.ts'
import { FileMemory } from '../host/remember-file.ts'
import { fulfilled, settleAll } from '../host/settle-all.ts'
import { removeUnpublished } from '../storage/generation.ts'
import { keepUp } from '../storage/keep-up.ts'
import { reading } from '../storage/readers.ts'
import { getTemplateBuild, type Template } from '../template/template-store.ts'
import type { Manifest } from './manifest.ts'
import { type RestoreSnapshot, restoreSnapshot } from './restore-snapshot.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { takeSnapshot } from './take-snapshot.ts'
import { findTemplateSnapshot, makeTemplateSnapshot, removeUnfinished } from './template-snapshot.ts'

/** Restores are bound by the CPU: more of them at once only make each slower. */
const RESTORES_AT_ONCE = 4
/** Of sandboxes that wake often, and of forks; more only cost reading again. */
const REMEMBERED_SNAPSHOTS = 256

export interface SleeperParts {
  readonly host: BurrowHost
  readonly criu: Criu
  readonly dataDir: string
}

interface FoundSnapshot {
  readonly paths: SnapshotPaths
  readonly manifest: Manifest
}

export type CreateFromTemplate = Pick<
  RestoreSnapshot,
  'sandboxId' | 'template' | 'toolsDir' | 'limits' | 'user' | 'env' | 'signal'
>

/** Create, snapshot, restore, fork and rollback, which are all made of two operations: take and restore. */
export class Sleeper {
  readonly store: SnapshotStore
  readonly #parts: SleeperParts
  readonly #found = new FileMemory<FoundSnapshot>(REMEMBERED_SNAPSHOTS)
  /** A snapshot being taken, or kept up, has layers that nothing refers to yet: nothing is collected meanwhile. */
  #taking = 0
  #isCollectionDue = false
  #collecting: Promise<void> | undefined

  constructor(parts: SleeperParts) {
    this.#parts = parts
    this.store = new SnapshotStore(parts.host.layout)
  }

  /** A new sandbox from its template's snapshot; undefined when there is none that can be used. */
  async create({ template, toolsDir, ...request }: CreateFromTemplate): Promise<LinuxBurrow | undefined> {
    const { host, criu } = this.#parts
    const found = await findTemplateSnapshot({ template, toolsDir, criu })
    if (found === undefined) return undefined
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
    const { criu } = this.#parts
    return (await findTemplateSnapshot({ template, toolsDir, criu })) !== undefined
  }

  async prepareTemplate(template: Template, toolsDir: string): Promise<void> {
    const { host, criu } = this.#parts
    if (await this.isTemplatePrepared(template, toolsDir)) return
    await removeUnfinished(template)
    await makeTemplateSnapshot(host, { template, toolsDir, criu })
  }

  async snapshot(
    burrow: LinuxBurrow,
    { leave }: SnapshotOptions,
  ): Promise<{ snapshot: Snapshot; burrow?: LinuxBurrow }> {
    const { host, criu, dataDir } = this.#parts
    this.#taking += 1
    const manifest = await takeSnapshot(host, {
      burrow,
      criu,
      toolsDir: guestToolsDir(dataDir, burrow.record.tools),
    }).finally(() => {
      this.#taking -= 1
      return this.#collect()
    })
    const snapshot = describe(manifest)
    if (leave === 'gone') return { snapshot }
    const next = await this.restore(manifest.id, { sandboxId: burrow.sandboxId, reseed: false }).catch(
      (cause: unknown) => {
        throw savedButAsleep(manifest.id, cause)
      },
    )
    if (leave === 'frozen') await next.freeze()
    return { snapshot, burrow: next }
  }

  restore(id: SnapshotId, options: RestoreOptions): Promise<LinuxBurrow> {
    return reading(this.#parts.host.layout.snapshot(id).dir, () => this.#restore(id, options))
  }

  async #restore(id: SnapshotId, options: RestoreOptions): Promise<LinuxBurrow> {
    const { paths, manifest } = await this.#find(id)
    const { host, dataDir } = this.#parts
    const limits = options.limits === undefined ? manifest.limits : { ...manifest.limits, ...options.limits }
    return restoreSnapshot(host, {
      paths,
      manifest,
      template: await getTemplateBuild(dataDir, manifest.template),
      toolsDir: guestToolsDir(dataDir, manifest.tools),
      sandboxId: options.sandboxId,
      limits: parseInput(burrowLimitsSchema, limits, 'limits'),
      reason: options.reason ?? 'resume',
      reseed: options.reseed ?? true,
      signal: options.signal,
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
    const { snapshot } = await this.snapshot(burrow, { leave: 'gone' }).catch((error: unknown) => {
      withdraw()
      throw error
    })
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
    const failed = restored.find((result) => result.status === 'rejected')
    if (parent?.status === 'fulfilled' && failed === undefined)
      return { snapshot, parent: parent.value, children: restored.flatMap(fulfilled) }
    await Promise.allSettled(restored.flatMap(fulfilled).map((child) => child.destroy()))
    if (parent?.status === 'rejected') throw savedButAsleep(snapshot.id, parent.reason)
    throw failed?.reason
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
    try {
      // What is being collected now was chosen before there was anything of the new version.
      await this.#collecting
      return await keepUp(id, { layout: host.layout, dataDir, store: this.store, signal })
    } finally {
      this.#taking -= 1
      this.#isCollectionDue = true
      await this.#collect()
    }
  }

  /** Removes what was left by a server that is gone. Pre: no other engine uses the state directory. */
  async collectLeftovers(): Promise<void> {
    this.#isCollectionDue = true
    if (this.#taking === 0) await removeUnpublished(this.#parts.host.layout)
    await this.#collect()
  }

  async #collect(): Promise<void> {
    if (this.#taking > 0 || !this.#isCollectionDue) return
    this.#isCollectionDue = false
    this.#collecting = this.store.collect()
    this.#collecting.catch(() => {})
    await this.#collecting
  }

  async rollback(burrow: LinuxBurrow, id: SnapshotId): Promise<LinuxBurrow> {
    // Restored beside the old one, which ends only when the new one answers.
    const next = await this.restore(id, { sandboxId: burrow.sandboxId, reason: 'rollback' })
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
    bytes: manifest.bytes,
  }
}
