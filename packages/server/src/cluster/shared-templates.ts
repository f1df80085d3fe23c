import { setTimeout as sleep } from 'node:timers/promises'
import { KeyedMutex, retryUntilDone } from '@dormouse/async'
import type { Depot } from '@dormouse/cluster'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { SnapshotTransfer } from '@dormouse/engine'
import { z } from 'zod'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import { BUILT_IN_OWNER } from '../templates/built-in-descriptions.ts'
import type { TemplateCatalog } from '../templates/template-catalog.ts'
import type { TemplateRow } from '../templates/template-rows.ts'
import { arrivingParts, snapshotListSchema, storePart } from './depot-lists.ts'

export interface SharedTemplatesOptions {
  readonly catalog: TemplateCatalog
  readonly depot: Depot
  readonly transfer: SnapshotTransfer
  /** Says why this host cannot restore a snapshot with these needs. */
  readonly problemOf: (needs: unknown) => string | undefined
  readonly deps: Pick<SandboxDependencies, 'snapshots' | 'engine' | 'log'>
}

/** The list of a template's snapshot: its parts, and what a host needs to restore it. */
const templateListSchema = snapshotListSchema.extend({ needs: z.unknown() })

const LOOK_MS = 1_000
const RETRY_MS = 2_000
const UPLOAD_WAIT_MS = 20_000
const UPLOAD_LOOK_MS = 250

/**
 * Templates that users have made. Their rows are shared; their snapshots are uploaded to the depot by the host that built
 * them, and fetched by another host when it first makes a sandbox of one.
 */
export class SharedTemplates implements Disposable {
  readonly #options: SharedTemplatesOptions
  readonly #locks = new KeyedMutex()
  readonly #uploaded = new Set<SnapshotId>()
  readonly #timer: NodeJS.Timeout
  #isClosed = false
  #uploading: Promise<void> = Promise.resolve()

  constructor(options: SharedTemplatesOptions) {
    this.#options = options
    this.#timer = setInterval(() => this.#look(), LOOK_MS).unref()
    this.#look()
  }

  [Symbol.dispose](): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  /** Lists in the depot that templates refer to. */
  lists(): string[] {
    return this.#options.catalog.all().flatMap(snapshotsOf).map(listNameOf)
  }

  /** Post: the snapshot of a template is on this host. Does nothing for one that is. */
  async bring(id: SnapshotId, row: { owner: string }): Promise<void> {
    const { deps } = this.#options
    if (deps.snapshots.get(id) !== undefined) return
    await this.#locks.run(id, () => this.#import(id, row.owner))
  }

  async #import(id: SnapshotId, owner: string): Promise<void> {
    const { deps, depot, transfer, problemOf } = this.#options
    if (deps.snapshots.get(id) !== undefined) return
    const { parts, needs } = await this.#listOf(id)
    const problem = problemOf(needs)
    if (problem !== undefined)
      throw new DormouseError('host_unavailable', `This host cannot use the template: ${problem}.`, {
        hint: 'Create the sandbox on the host that built the template.',
      })
    await transfer.import(id, await arrivingParts(depot, parts), depot.keptName(listNameOf(id)))
    // Many sandboxes start from it: none of them should wait for pages.
    await transfer.untilArrived(id)
    deps.snapshots.put(await deps.engine.getSnapshot(id), { owner, isKept: false })
  }

  /** Its host may be uploading it. */
  async #listOf(id: SnapshotId): Promise<z.output<typeof templateListSchema>> {
    const until = performance.now() + UPLOAD_WAIT_MS
    for (;;) {
      const { depot } = this.#options
      const listed = await depot.findList(depot.keptName(listNameOf(id)))
      const found = templateListSchema.safeParse(listed?.list)
      if (found.success) return found.data
      if (performance.now() > until || this.#isClosed)
        throw new DormouseError(
          'host_unavailable',
          'The host that built the template has not uploaded it yet.',
          {
            hint: 'Try again, or create the sandbox on that host.',
            details: { retryAfterMs: 1_000 },
          },
        )
      await sleep(UPLOAD_LOOK_MS)
    }
  }

  #look(): void {
    const { catalog, deps } = this.#options
    for (const row of catalog.all()) {
      if (row.owner === BUILT_IN_OWNER || row.state !== 'ready') continue
      for (const id of snapshotsOf(row)) {
        if (this.#uploaded.has(id) || deps.snapshots.get(id) === undefined) continue
        this.#uploaded.add(id)
        this.#uploading = this.#uploading.then(() => this.#uploadUntilDone(id))
      }
    }
  }

  async #uploadUntilDone(id: SnapshotId): Promise<void> {
    const { deps } = this.#options
    await retryUntilDone(() => this.#upload(id), {
      delayMs: RETRY_MS,
      isOver: () => this.#isClosed || deps.snapshots.get(id) === undefined,
      onFailure: (err) => deps.log.warn({ snapshotId: id, err }, 'a template is not in the depot yet'),
    })
  }

  async #upload(id: SnapshotId): Promise<void> {
    const { depot, transfer } = this.#options
    const has = async (base: string) => (await depot.findList(depot.keptName(base))) !== undefined
    if (await has(listNameOf(id))) return
    await transfer.export(id, async ({ needs, parts }) => {
      const listed: { key: string; list: string }[] = []
      for (const part of parts) {
        const base = part.key.replaceAll(/[^A-Za-z0-9_-]/g, '_')
        if (!(await has(base))) {
          const { list } = await storePart(depot, part, { isKept: true })
          await depot.putList(base, list, { isKept: true })
        }
        listed.push({ key: part.key, list: depot.keptName(base) })
      }
      await depot.putList(listNameOf(id), { parts: listed, needs }, { isKept: true })
    })
  }
}

function snapshotsOf({ owner, state, snapshotId, filesId }: TemplateRow): SnapshotId[] {
  if (owner === BUILT_IN_OWNER || state !== 'ready') return []
  return [snapshotId, filesId].filter((id) => id !== undefined)
}

function listNameOf(id: SnapshotId): string {
  return `template-${id}`
}
