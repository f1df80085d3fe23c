import { allOf, untilOneFails } from '@dormouse/async'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { ForkedParent, LimitRestore, RestoreOptions } from '@dormouse/engine'
import { recordEntries } from '../../network/record-entries.ts'
import { endBurrow } from '../end-burrow.ts'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { ForkedChild } from './forked-child.ts'
import { currentOptions } from './restore-options.ts'
import { storedAs } from './standby.ts'

export interface Fork {
  readonly count: number
  readonly reseed: boolean
  readonly signal?: AbortSignal | undefined
}

/** A fork whose parent is free again. */
export interface StartedFork {
  /** Rejects when a child fails. Then no child is left, not even one that has served calls. */
  readonly children: Promise<Sandbox[]>
}

interface ForkUnderWay {
  readonly sandbox: Sandbox
  readonly children: readonly ForkedChild[]
  readonly request: Fork
  readonly beganMs: number
}

/**
 * Makes children that differ from their parent only in their identity: all of them or none. Returns as soon as there
 * is a snapshot and a running parent continues; a sleeping parent is not woken. Each child serves calls as soon as it
 * runs. Pre: the caller holds the lock of the parent alone.
 */
export async function fork(sandbox: Sandbox, request: Fork): Promise<StartedFork> {
  requireExists(sandbox)
  const { deps, row } = sandbox
  using _room = deps.quotas.holdNew(row, request.count)
  await Promise.all([deps.starts.requireDisk(), deps.starts.requireMemory()])
  const children = Array.from({ length: request.count }, () => new ForkedChild(sandbox))
  const underWay = { sandbox, children, request, beganMs: performance.now() }
  const { restored } = await (row.state === 'running' ? forkRunning : forkSleeping)(underWay)
  return { children: finish(underWay, restored) }
}

async function finish(
  { sandbox, children, beganMs }: ForkUnderWay,
  restored: Promise<unknown>,
): Promise<Sandbox[]> {
  const { deps, row } = sandbox
  try {
    await restored
  } catch (error) {
    await Promise.all(children.map((child) => child.remove()))
    throw error
  }
  const latencyMs = performance.now() - beganMs
  const entry = { event: 'forked', cause: 'asked', latencyMs, detail: `${children.length} children` } as const
  // The parent may be in its next transition by now, or deleted.
  recordEntries(deps, () => !sandbox.isRemoved, [{ id: row.id, entry }])
  for (const listener of deps.listeners) listener.recorded?.(row, entry)
  return children.map((child) => child.sandbox)
}

async function forkRunning(underWay: ForkUnderWay): Promise<{ restored: Promise<unknown> }> {
  const { sandbox, children, request, beganMs } = underWay
  const { deps, burrow, row } = sandbox
  const { reseed, signal } = request
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  sandbox.write({ intent: 'fork', withoutSync: true })
  let savedAs: SnapshotId | undefined
  try {
    await sandbox.sample()
    const { starts } = deps
    const limitRestore: LimitRestore = (id, restore) =>
      id === sandbox.id ? starts.runUrgent(restore) : starts.run(row.owner, restore, signal)
    const byId = new Map(children.map((child) => [child.id, child]))
    let parentContinues = () => {}
    const continued = new Promise<undefined>((resolve) => {
      parentContinues = () => resolve(undefined)
    })
    const restored = deps.engine.fork(burrow, {
      sandboxIds: [...byId.keys()],
      ...{ reseed, limitRestore, ...(signal && { signal }) },
      onParent: (parent) => {
        recordParent(underWay, parent)
        parentContinues()
      },
      onChild: (child) => byId.get(child.sandboxId)?.run(child, performance.now() - beganMs),
    })
    const stopped = await Promise.race([continued, restored])
    if (stopped === undefined) return { restored }
    deps.network.saved(row.id, stopped.snapshot.id, stopped.connections)
    savedAs = stopped.snapshot.id
    throw stopped.resumeError
  } catch (error) {
    const snapshotId = sandbox.burrow === burrow ? (savedAs ?? (await storedAs(burrow))) : undefined
    if (snapshotId === undefined) endIntent(sandbox)
    else await sandbox.recordOutcome(() => sleepAt(sandbox, snapshotId))
    throw error
  }
}

/**
 * The parent continues, and its children can be found. Its former head is what recovery goes back to after a power cut,
 * until the new one is on disk.
 */
function recordParent(
  { sandbox, children }: ForkUnderWay,
  { burrow, snapshot, connections }: ForkedParent,
): void {
  const { deps, row } = sandbox
  const former = row.head
  sandbox.write({
    fields: { head: snapshot.id, lostSince: undefined },
    newBurrow: { burrow, isContinued: true },
    intent: null,
    inTransaction: () => {
      deps.snapshots.put(snapshot, { owner: row.owner, isKept: false })
      for (const child of children) child.write({ head: snapshot.id, headOf: row.id })
    },
    withoutSync: true,
  })
  deps.network.copied(row.id, snapshot.id, connections)
  addAll(sandbox, children, snapshot.id)
  if (former !== undefined) sandbox.dropFormerHead(former, snapshot.id)
}

function addAll({ deps, id }: Sandbox, children: readonly ForkedChild[], head: SnapshotId): void {
  const lost = deps.network.lostByCopies(id, head)
  for (const child of children) child.add(lost)
}

async function sleepAt(sandbox: Sandbox, head: SnapshotId): Promise<void> {
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

/** An intent that stays is harmless: the next transition replaces it. */
function endIntent(sandbox: Sandbox): void {
  try {
    if (!sandbox.isDeleted && sandbox.pendingWrites.isEmpty)
      sandbox.write({ intent: null, withoutSync: true })
  } catch (err) {
    sandbox.deps.log.warn({ sandboxId: sandbox.id, err }, 'the end of a failed fork is not recorded')
  }
}

/** Its snapshot is on disk already. */
async function forkSleeping(underWay: ForkUnderWay): Promise<{ restored: Promise<unknown> }> {
  const { sandbox, children, request, beganMs } = underWay
  const { deps, row } = sandbox
  const { head, headOf } = row
  if (head === undefined || headOf === undefined)
    throw new DormouseError('conflict', 'There is nothing to fork yet.')
  deps.quarantine.require(row, head)
  const { reseed, signal } = request
  const options = {
    ...currentOptions(deps, row, head),
    ...{ of: headOf, reason: 'fork' as const, reseed, ...(signal && { signal }) },
  }
  deps.db.transactionWithoutSync(() => {
    for (const child of children) child.write({ head, headOf })
  })
  addAll(sandbox, children, head)
  const restoreNext = untilOneFails((how: RestoreOptions) => deps.engine.restore(head, how))
  const restore = async (child: ForkedChild) => {
    const { id: sandboxId } = child
    const burrow = await deps.starts.run(row.owner, () => restoreNext({ ...options, sandboxId }))
    try {
      child.run(burrow, performance.now() - beganMs)
    } catch (error) {
      await endBurrow(deps, burrow)
      throw error
    }
  }
  return { restored: allOf(children.map(restore)) }
}
