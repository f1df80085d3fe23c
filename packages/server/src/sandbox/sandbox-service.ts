import { type BurrowLimits, DormouseError, type Isolation, type SnapshotId } from '@dormouse/contracts'
import type { SandboxAnswer, SnapshotAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import { cursorOf, positionOf } from '../store/cursor.ts'
import type { Page } from '../store/page.ts'
import type { CreateSandbox, SandboxOrigin, SandboxQuery } from '../store/sandbox-rows.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import { findSnapshot, noSuchSnapshot } from './find-snapshot.ts'
import { requireIsolation } from './require-isolation.ts'
import type { Sandbox } from './sandbox.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'
import { noSuchSandbox } from './sandbox-errors.ts'
import type { SandboxHandle } from './sandbox-handle.ts'
import { snapshotView } from './sandbox-view.ts'
import { SnapshotChecks } from './snapshot-checks.ts'
import { checkRequest, create, serverIsEnding } from './transitions/create.ts'

/** What the API and SSH use of sandboxes and snapshots. */
export interface SandboxCalls {
  /**
   * Post: the sandbox runs and is on record. A refusal leaves nothing behind. `isNew` is false when `getOrCreate`
   * found one.
   */
  create(
    request: CreateSandbox,
    caller: Caller,
    signal?: AbortSignal,
    origin?: SandboxOrigin,
  ): Promise<{ sandbox: SandboxHandle; isNew: boolean }>
  /** Throws what `create` would throw about volumes, secrets, limits, network and isolation. Makes nothing. */
  check(request: CreateSandbox, caller: Caller): void
  /** Throws when sandboxes with this isolation are not to be had here, or cannot do what is asked for. */
  requireIsolation(isolation: Isolation, wants: { readonly volumes: readonly unknown[] }): void
  /** By id or, for the caller's own, by name. Throws `not_found`, also for sandboxes of others. */
  get(idOrName: string, caller: Caller): SandboxHandle
  list(query: SandboxQuery, caller: Caller): Page<SandboxAnswer>
  listSnapshots(
    query: { sandboxId?: string; limit: number; cursor?: string },
    caller: Caller,
  ): Page<SnapshotAnswer>
  /** Snapshots are named by id or as `SANDBOX/NAME`. Throws `not_found`, also for those of others. */
  getSnapshot(ref: string, caller: Caller): SnapshotAnswer
  /** The limits that the sandbox had when the snapshot was taken. */
  limitsOfSnapshot(ref: string, caller: Caller): Promise<BurrowLimits>
  /** Fetches a snapshot that another host of the cluster has. */
  bringSnapshot(id: string): Promise<void>
  /** Reads all of the snapshot and wakes nothing. Throws `snapshot_unusable` when it could not be restored here. */
  verifySnapshot(ref: string, caller: Caller): Promise<SnapshotId>
  deleteSnapshot(ref: string, caller: Caller): Promise<void>
}

/** Creates, finds and lists sandboxes and snapshots on behalf of a caller. */
export class SandboxService implements SandboxCalls {
  readonly deps: SandboxDependencies
  readonly #checks: SnapshotChecks
  #isClosing = false

  constructor(deps: SandboxDependencies) {
    this.deps = deps
    this.#checks = new SnapshotChecks(deps)
  }

  /** No sandbox is created from now on. */
  close(): void {
    this.#isClosing = true
  }

  get isClosing(): boolean {
    return this.#isClosing
  }

  async create(
    request: CreateSandbox,
    caller: Caller,
    signal?: AbortSignal,
    origin?: SandboxOrigin,
  ): Promise<{ sandbox: Sandbox; isNew: boolean }> {
    if (this.#isClosing) throw serverIsEnding()
    return create(this.deps, request, caller, { signal, origin })
  }

  check(request: CreateSandbox, caller: Caller): void {
    const volumes = checkRequest(this.deps, request, caller)
    if (request.isolation !== undefined)
      requireIsolation(this.deps, request.isolation, { ...request, volumes })
  }

  requireIsolation(isolation: Isolation, wants: { readonly volumes: readonly unknown[] }): void {
    requireIsolation(this.deps, isolation, wants)
  }

  /** Of every owner, in no order. */
  all(): Iterable<Sandbox> {
    return this.deps.sandboxes.all()
  }

  find(id: string): Sandbox | undefined {
    return this.deps.sandboxes.find(id)
  }

  get(idOrName: string, caller: Caller): Sandbox {
    const { sandboxes } = this.deps
    const found = sandboxes.find(idOrName) ?? sandboxes.findNamed(idOrName, caller.keyId)
    if (found === undefined || found.isDeleted || !mayUse(caller, found.row.owner))
      throw noSuchSandbox(idOrName)
    return found
  }

  list(query: SandboxQuery, caller: Caller): Page<SandboxAnswer> {
    const { rows, sandboxes } = this.deps
    const { items, nextCursor } = rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    const views = items.flatMap(({ id }) => {
      const found = sandboxes.find(id)
      return found === undefined || found.isLeaving ? [] : found.view()
    })
    return { items: views, nextCursor }
  }

  listSnapshots(
    query: { sandboxId?: string; limit: number; cursor?: string },
    caller: Caller,
  ): Page<SnapshotAnswer> {
    const { snapshots, elsewhere } = this.deps
    const owner = caller.isAdmin ? undefined : caller.keyId
    const page = withOthers(snapshots.list(query, owner), elsewhere?.list(query, owner) ?? [], query)
    return { ...page, items: page.items.map((row) => snapshotView(this.deps, row)) }
  }

  getSnapshot(ref: string, caller: Caller): SnapshotAnswer {
    return snapshotView(this.deps, this.#snapshot(ref, caller))
  }

  async limitsOfSnapshot(ref: string, caller: Caller): Promise<BurrowLimits> {
    const { id } = this.#snapshot(ref, caller)
    await this.deps.elsewhere?.bring(id)
    return (await this.deps.engine.getSnapshot(id)).limits
  }

  async bringSnapshot(id: string): Promise<void> {
    await this.deps.elsewhere?.bring(id as SnapshotId)
  }

  async verifySnapshot(ref: string, caller: Caller): Promise<SnapshotId> {
    const row = this.#snapshot(ref, caller)
    await this.deps.elsewhere?.bring(row.id)
    await this.#checks.check(row)
    return row.id
  }

  async deleteSnapshot(ref: string, caller: Caller): Promise<void> {
    const { snapshots, engine, elsewhere } = this.deps
    const row = this.#snapshot(ref, caller)
    if (row.isKept) await elsewhere?.release(row.id)
    if (snapshots.get(row.id) === undefined) return
    if (snapshots.isHead(row.id) || snapshots.isTemplate(row.id)) {
      if (!row.isKept)
        throw new DormouseError('in_use', 'A sandbox or a template needs this snapshot.', {
          hint: 'Delete that instead.',
        })
      // It stays as long as a sandbox wakes from it or a template refers to it, and is removed with them.
      snapshots.unkeep(row.id)
      return
    }
    snapshots.delete(row.id)
    await engine.deleteSnapshot(row.id)
    snapshots.forget(row.id)
  }

  #snapshot(ref: string, caller: Caller): SnapshotRow {
    const row = findSnapshot(this.deps, ref, { owner: caller.keyId })
    if (row === undefined || !mayUse(caller, row.owner)) throw noSuchSnapshot(ref)
    return row
  }
}

function mayUse(caller: Caller, owner: string): boolean {
  return caller.isAdmin || caller.keyId === owner
}

/** Adds snapshots of other hosts to a page of this host's. Newest first. */
function withOthers(
  page: Page<SnapshotRow>,
  others: readonly SnapshotRow[],
  { limit, cursor }: { limit: number; cursor?: string },
): Page<SnapshotRow> {
  if (others.length === 0) return page
  const before = cursor === undefined ? undefined : positionOf(cursor)
  const isBefore = ({ createdAt, id }: SnapshotRow) =>
    before === undefined || createdAt < before[0] || (createdAt === before[0] && id < before[1])
  const all = [...page.items, ...others.filter(isBefore)]
  all.sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
  const items = all.slice(0, limit)
  const last = items.at(-1)
  const hasMore = all.length > limit || page.nextCursor !== undefined
  return { items, nextCursor: hasMore && last !== undefined ? cursorOf(last.createdAt, last.id) : undefined }
}
