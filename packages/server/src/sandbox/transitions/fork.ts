import { DormouseError, newSandboxId, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, LimitRestore, Snapshot } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { beginRow } from './begin-row.ts'
import { currentOptions } from './restore-options.ts'
import { storedAs } from './standby.ts'

/** The snapshot that children start from, and the sandbox that it was taken of. */
type Origin = Required<Pick<SandboxRow, 'head' | 'headOf'>>

export interface Fork {
  readonly count: number
  readonly reseed: boolean
  readonly signal?: AbortSignal | undefined
}

/**
 * Makes children that differ from their parent only in their identity: all of them or none. Pre: the caller holds the
 * lock alone. A running parent continues; a sleeping parent is not woken.
 */
export async function fork(sandbox: Sandbox, request: Fork): Promise<Sandbox[]> {
  requireExists(sandbox)
  const { deps, row } = sandbox
  using _room = deps.quotas.holdNew(row, request.count)
  await Promise.all([deps.starts.requireDisk(), deps.starts.requireMemory()])
  const began = performance.now()
  const children = Array.from(
    { length: request.count },
    () => new Sandbox(deps, childOf(row, deps.clock.wallMs())),
  )
  deps.db.transactionWithoutSync(() => {
    for (const child of children) child.write({ intent: 'create' })
    sandbox.write({ intent: 'fork' })
  })
  const burrows: Burrow[] = []
  try {
    const { head, headOf } = await (row.state === 'running' ? forkRunning : forkSleeping)(
      sandbox,
      children,
      request,
      burrows,
    )
    const latencyMs = performance.now() - began
    // Does not wait for the disk: after a power cut there was no fork.
    deps.db.transactionWithoutSync(() => {
      children.forEach((child, index) => {
        deps.lineage.put(child.id, row.id)
        for (const listener of deps.listeners) listener.forked?.(row, child.row)
        const burrow = burrows[index]
        if (burrow === undefined)
          throw new DormouseError('internal', 'A fork has fewer burrows than children.')
        child.move('running', {
          fields: { head, headOf },
          newBurrow: { burrow, isContinued: true },
          intent: null,
          entry: { event: 'created', cause: `fork of ${row.id}`, latencyMs },
        })
      })
      sandbox.write({
        intent: null,
        entry: { event: 'forked', cause: 'asked', latencyMs, detail: `${request.count} children` },
      })
    })
    for (const child of children) deps.sandboxes.add(child)
    if (head !== undefined) for (const { id } of children) deps.network.forked(id, row.id, head)
    return children
  } catch (error) {
    for (const child of children) child.leaveBurrow()
    await Promise.all(burrows.map((burrow) => endBurrow(deps, burrow)))
    undo(sandbox, children)
    throw error
  }
}

/** If this cannot be written, recovery does it: it removes children that are still being created. */
function undo(sandbox: Sandbox, children: readonly Sandbox[]): void {
  const { deps } = sandbox
  for (const { id } of children) deps.network.forget(id)
  try {
    deps.db.transaction(() => {
      for (const { id } of children) deps.rows.delete(id)
      // A pending write ends the intent, too.
      if (!sandbox.isDeleted && sandbox.pendingWrites.isEmpty) sandbox.write({ intent: null })
    })
  } catch (error) {
    deps.log.warn({ sandboxId: sandbox.id, err: error }, 'a failed fork is not undone yet')
  }
}

async function forkRunning(
  sandbox: Sandbox,
  children: readonly Sandbox[],
  { reseed, signal }: Fork,
  burrows: Burrow[],
): Promise<Origin> {
  const { deps, burrow, row } = sandbox
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  await sandbox.sample()
  const sandboxIds = children.map(({ id }) => id)
  const { starts } = deps
  const limitRestore: LimitRestore = (id, restore) =>
    id === sandbox.id ? starts.runUrgent(restore) : starts.run(row.owner, restore, signal)
  const options = {
    sandboxIds,
    reseed,
    limitRestore,
    onParent: ({ burrow: next, snapshot }: { burrow: Burrow; snapshot: Snapshot }) =>
      recordHead(sandbox, snapshot, next),
    ...(signal && { signal }),
  }
  let savedAs: SnapshotId | undefined
  try {
    const forked = await deps.engine.fork(burrow, options)
    if (forked.resumeError !== undefined) {
      deps.network.saved(row.id, forked.snapshot.id, forked.connections)
      savedAs = forked.snapshot.id
      throw forked.resumeError
    }
    deps.network.copied(row.id, forked.snapshot.id, forked.connections)
    burrows.push(...forked.children)
    return { head: forked.snapshot.id, headOf: row.id }
  } catch (error) {
    // The parent may have continued before something else failed.
    const snapshotId = sandbox.burrow === burrow ? (savedAs ?? (await storedAs(burrow))) : undefined
    if (snapshotId !== undefined) await sandbox.recordOutcome(() => sleepAt(sandbox, snapshotId))
    throw error
  }
}

async function sleepAt(sandbox: Sandbox, head: Snapshot['id']): Promise<void> {
  const { deps, row } = sandbox
  const snapshot = await deps.engine.getSnapshot(head)
  await Promise.all([deps.engine.syncSnapshot(head), deps.journal.sync()])
  sandbox.move('standby', {
    fields: { tier: 'stored', head, lostSince: undefined },
    newBurrow: null,
    intent: null,
    entry: { event: 'slept', cause: 'fork failed', tier: 'stored' },
    inTransaction: () => deps.snapshots.put(snapshot, { owner: row.owner, isKept: false }),
  })
}

/**
 * The parent continues. Its former head is what recovery goes back to after a power cut, until the new one is on disk.
 */
function recordHead(sandbox: Sandbox, snapshot: Snapshot, burrow: Burrow): void {
  const { deps, row } = sandbox
  const former = row.head
  sandbox.write({
    fields: { head: snapshot.id, lostSince: undefined },
    newBurrow: { burrow, isContinued: true },
    inTransaction: () => deps.snapshots.put(snapshot, { owner: row.owner, isKept: false }),
    withoutSync: true,
  })
  if (former !== undefined) sandbox.dropFormerHead(former, snapshot.id)
}

async function forkSleeping(
  { deps, row }: Sandbox,
  children: readonly Sandbox[],
  { reseed, signal }: Fork,
  burrows: Burrow[],
): Promise<Origin> {
  const { head, headOf } = row
  if (head === undefined || headOf === undefined)
    throw new DormouseError('conflict', 'There is nothing to fork yet.')
  deps.quarantine.require(row, head)
  const reason = 'fork' as const
  const options = {
    ...currentOptions(deps, row, head),
    of: headOf,
    reason,
    reseed,
    ...(signal && { signal }),
  }
  const restored = await Promise.allSettled(
    children.map(({ id: sandboxId }) =>
      deps.starts.run(row.owner, () => deps.engine.restore(head, { ...options, sandboxId })),
    ),
  )
  for (const result of restored) if (result.status === 'fulfilled') burrows.push(result.value)
  const failed = restored.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return { head, headOf }
}

export function childOf(parent: SandboxRow, now: number): SandboxRow {
  return {
    ...parent,
    id: newSandboxId() satisfies SandboxId,
    name: undefined,
    head: undefined,
    headOf: undefined,
    forkedFrom: parent.id,
    ...beginRow(now),
  }
}
