import {
  DormouseError,
  isSnapshotId,
  newSandboxId,
  type SandboxId,
  type SandboxState,
  type SnapshotId,
} from '@dormouse/contracts'
import type { SandboxAnswer, SnapshotAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { Page } from '../store/page.ts'
import type {
  MountedVolume,
  SandboxLimits,
  SandboxQuery,
  SandboxRow,
  VolumeMount,
} from '../store/sandbox-rows.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import { endBurrow } from './end-burrow.ts'
import { type Family, LiveSandbox } from './live-sandbox.ts'
import { gone, SandboxBody } from './sandbox-body.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'
import type { CreateSandbox, Sandboxes } from './service.ts'
import { SnapshotChecks } from './snapshot-checks.ts'
import { snapshotView } from './snapshot-view.ts'
import { startBurrow } from './transitions/wake.ts'

/** What the quota of a key is compared with. */
export interface OwnerUsage {
  readonly sandboxes: number
  readonly running: number
  readonly memoryBytes: number
  readonly diskBytes: number
}

export interface RegistryOptions {
  /** Throws `limit_reached` when the owner may not have this much more. */
  readonly checkQuota: (owner: string, used: () => OwnerUsage, wanted: Partial<OwnerUsage>) => void
  /** Throws `limit_reached` when a sandbox of this owner may not have such limits. */
  readonly checkCeilings: (owner: string, limits: Partial<SandboxLimits>) => void
  /** What the volumes of an owner take on disk. */
  readonly volumeBytes: (owner: string) => number
  /** Which volumes a sandbox asks for. Throws `not_found`. */
  readonly resolveVolumes: (mounts: readonly VolumeMount[], caller: Caller) => readonly MountedVolume[]
}

/** For those who have to know a sandbox before it exists, or start one from other than its template. */
export interface SandboxOrigin {
  readonly id: SandboxId
  readonly from?: SnapshotId | undefined
}

/** Runs, is about to, or may go back to it. */
const IN_MEMORY: ReadonlySet<SandboxState> = new Set(['creating', 'resuming', 'running', 'suspending'])

/** All sandboxes of this server. */
export class SandboxRegistry implements Sandboxes {
  readonly parts: SandboxDependencies
  readonly #options: RegistryOptions
  readonly #sandboxes = new Map<string, LiveSandbox>()
  readonly #held = new Set<{ readonly owner: string; readonly count: number; readonly memoryBytes: number }>()
  readonly #checks: SnapshotChecks
  readonly #family: Family
  #isClosing = false

  constructor(parts: SandboxDependencies, options: RegistryOptions) {
    this.parts = parts
    this.#options = options
    this.#checks = new SnapshotChecks(parts)
    this.#family = {
      welcome: (children) => children.map((child) => this.add(child).view()),
      forget: (body) => void this.#sandboxes.delete(body.id),
      holdRoomFor: ({ row }, count) => this.#holdRoom(row, count),
      requireRoomToRun: ({ row }) =>
        this.#requireQuota(row, { running: 1, memoryBytes: row.limits.memoryBytes }),
      requireMoreMemory: ({ row }, memoryBytes) => this.#requireQuota(row, { memoryBytes }),
      checkCeilings: ({ row }, limits) => this.#options.checkCeilings(row.owner, limits),
      requireRoomOnDisk: ({ row }) => this.requireRoomOnDisk(row.owner),
      requireName: ({ id, row }, name) => {
        const named = this.#named(name, row.owner)
        if (named !== undefined && named.id !== id) throw nameTaken(name)
      },
    }
  }

  /** Throws `limit_reached` when this owner may have nothing more on disk. */
  requireRoomOnDisk(owner: string): void {
    this.#requireQuota({ owner }, { diskBytes: 1 })
  }

  add(body: SandboxBody): LiveSandbox {
    const sandbox = new LiveSandbox(body, this.#family)
    this.#sandboxes.set(body.id, sandbox)
    return sandbox
  }

  /** Everybody's, in no order. */
  all(): Iterable<LiveSandbox> {
    return this.#sandboxes.values()
  }

  find(id: SandboxId): LiveSandbox | undefined {
    return this.#sandboxes.get(id)
  }

  /** From now on nothing new begins. */
  close(): void {
    this.#isClosing = true
  }

  async create(
    request: CreateSandbox,
    caller: Caller,
    signal?: AbortSignal,
    origin?: SandboxOrigin,
  ): Promise<{ sandbox: LiveSandbox; isNew: boolean }> {
    if (this.#isClosing)
      throw new DormouseError('overloaded', 'The server is ending.', { details: { retryAfterMs: 5_000 } })
    const named = request.name === undefined ? undefined : this.#named(request.name, caller.keyId)
    if (named !== undefined) {
      if (request.getOrCreate !== true) throw nameTaken(request.name)
      if (named.body.row.state === 'creating') (await named.body.turns.shared(signal)).release()
      // The one who was making it may have failed, and may not have been able to write that down.
      if (named.body.row.state === 'creating') await named.settle()
      return named.body.isDeleted ? this.create(request, caller, signal) : { sandbox: named, isNew: false }
    }
    this.#options.checkCeilings(caller.keyId, request.limits)
    this.requireRoom(caller.keyId, request.limits.memoryBytes)
    const volumes = this.#options.resolveVolumes(request.volumes, caller)
    const { parts } = this
    parts.network.check(request.network)
    parts.secrets.require(request.secrets, { owner: caller.keyId, env: request.env })
    const body = new SandboxBody(
      parts,
      rowOf({ ...request, volumes }, caller, { now: parts.clock.wallMs(), id: origin?.id }),
    )
    // Known by its name before it is there: of two that ask for the same one, the second waits for the first.
    const sandbox = this.add(body)
    try {
      await body.turns.exclusive(() => this.#start(body, signal, origin?.from))
    } catch (error) {
      // As long as its row is there its name is taken.
      if (body.debts.isEmpty) this.#sandboxes.delete(body.id)
      throw error
    }
    return { sandbox, isNew: true }
  }

  async #start(
    body: SandboxBody,
    signal: AbortSignal | undefined,
    from: SnapshotId | undefined,
  ): Promise<void> {
    const { parts } = this
    const began = performance.now()
    await parts.admission.requireDisk()
    // On disk with its end: after a power cut in between there is nothing of it but files that nobody knows, and those are collected.
    body.write({ intent: 'create', isQuick: true })
    try {
      const { row } = body
      const burrow = await parts.admission.run(row.owner, () => startBurrow(parts, row, signal, from), signal)
      body.enter({ burrow, isContinued: false })
      body.work.touch()
      body.move('running', {
        intent: null,
        entry: { event: 'created', cause: 'asked', latencyMs: performance.now() - began },
      })
    } catch (error) {
      await endBurrow(parts, body.burrow)
      body.leave()
      await body
        .conclude(() => this.#takeBack(body))
        .catch((cause: unknown) => {
          parts.log.warn({ sandboxId: body.id, err: cause }, 'a creation that failed was not taken back yet')
        })
      throw error
    }
  }

  #takeBack(body: SandboxBody): void {
    if (!body.isDeleted) body.move('deleting')
    this.parts.rows.delete(body.id)
    this.parts.network.forget(body.id)
  }

  get(idOrName: string, caller: Caller): LiveSandbox {
    const found = this.#sandboxes.get(idOrName) ?? this.#named(idOrName, caller.keyId)
    if (found === undefined || found.body.isDeleted || !mayUse(caller, found.body.row.owner))
      throw gone(idOrName)
    return found
  }

  list(query: SandboxQuery, caller: Caller): Page<SandboxAnswer> {
    const { items, nextCursor } = this.parts.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    const views = items.map((row) => this.#sandboxes.get(row.id)?.view()).filter((view) => view !== undefined)
    return { items: views, nextCursor }
  }

  listSnapshots(
    query: { sandboxId?: string; limit: number; cursor?: string },
    caller: Caller,
  ): Page<SnapshotAnswer> {
    const { snapshots } = this.parts
    const { items, nextCursor } = snapshots.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map((row) => snapshotView(this.parts, row)), nextCursor }
  }

  getSnapshot(id: string, caller: Caller): SnapshotAnswer {
    return snapshotView(this.parts, this.#snapshot(id, caller))
  }

  async verifySnapshot(id: string, caller: Caller): Promise<void> {
    await this.#checks.check(this.#snapshot(id, caller))
  }

  async deleteSnapshot(id: string, caller: Caller): Promise<void> {
    const { snapshots, engine } = this.parts
    const row = this.#snapshot(id, caller)
    if (snapshots.isHead(row.id) || snapshots.isTemplate(row.id)) {
      if (!row.isKept)
        throw new DormouseError('in_use', 'A sandbox or a template needs this snapshot.', {
          hint: 'Delete that instead.',
        })
      // It stays for the sandbox that wakes from it or the template that stands for it, and goes with them.
      snapshots.unkeep(row.id)
      return
    }
    snapshots.delete(row.id)
    await engine.deleteSnapshot(row.id)
    snapshots.forget(row.id)
  }

  #snapshot(id: string, caller: Caller): SnapshotRow {
    const row = isSnapshotId(id) ? this.parts.snapshots.get(id) : undefined
    if (row === undefined || !mayUse(caller, row.owner))
      throw new DormouseError('not_found', `There is no snapshot ${id}.`)
    return row
  }

  #named(name: string, owner: string): LiveSandbox | undefined {
    for (const sandbox of this.#sandboxes.values()) {
      const { row } = sandbox.body
      if (row.name === name && row.owner === owner && row.state !== 'deleting') return sandbox
    }
    return undefined
  }

  /** Throws `limit_reached` when this owner may not have that many more that run. */
  requireRoom(owner: string, memoryBytes: number, count = 1): void {
    this.#options.checkQuota(owner, () => this.#usedBy(owner), {
      sandboxes: count,
      running: count,
      memoryBytes: count * memoryBytes,
      // Whatever is made takes some disk: who has none left is refused.
      diskBytes: count,
    })
  }

  /** For children that are not known yet: of two forks at once, the second must see the first. */
  #holdRoom({ owner, limits }: SandboxRow, count: number): Disposable {
    this.requireRoom(owner, limits.memoryBytes, count)
    const held = { owner, count, memoryBytes: count * limits.memoryBytes }
    this.#held.add(held)
    return { [Symbol.dispose]: () => void this.#held.delete(held) }
  }

  #requireQuota({ owner }: Pick<SandboxRow, 'owner'>, wanted: Partial<OwnerUsage>): void {
    this.#options.checkQuota(owner, () => this.#usedBy(owner), wanted)
  }

  #usedBy(owner: string): OwnerUsage {
    const diskBytes = this.parts.snapshots.bytesOf(owner) + this.#options.volumeBytes(owner)
    const used = { sandboxes: 0, running: 0, memoryBytes: 0, diskBytes }
    for (const { body } of this.#sandboxes.values()) {
      if (body.row.owner !== owner) continue
      used.sandboxes += 1
      used.diskBytes += this.parts.journalBytes(body.id)
      if (!IN_MEMORY.has(body.row.state)) continue
      used.running += 1
      // One that is being changed may end up with either.
      used.memoryBytes += Math.max(body.row.limits.memoryBytes, body.aim.limits.memoryBytes)
    }
    for (const held of this.#held) {
      if (held.owner !== owner) continue
      used.sandboxes += held.count
      used.running += held.count
      used.memoryBytes += held.memoryBytes
    }
    return used
  }
}

function mayUse(caller: Caller, owner: string): boolean {
  return caller.isAdmin || caller.keyId === owner
}

export function nameTaken(name: string | undefined): DormouseError {
  return new DormouseError('name_taken', `There is already a sandbox named "${name}".`)
}

function rowOf(
  { getOrCreate: _, ...request }: CreateSandbox & Pick<SandboxRow, 'volumes'>,
  caller: Caller,
  { now, id = newSandboxId() }: { now: number; id?: SandboxId | undefined },
): SandboxRow {
  return {
    ...request,
    id,
    owner: caller.keyId,
    state: 'creating',
    tier: undefined,
    head: undefined,
    headOf: undefined,
    burrow: undefined,
    forkedFrom: undefined,
    createdAt: now,
    lastActiveAt: now,
    stateSince: now,
    lostSince: undefined,
    diskBytes: undefined,
    diskFiles: undefined,
  }
}
