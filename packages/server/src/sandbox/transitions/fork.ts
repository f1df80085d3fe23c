import { DormouseError, newSandboxId, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, LimitRestore, Snapshot } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import { SandboxBody } from '../sandbox-body.ts'
import { storedAs } from './standby.ts'
import { asNow } from './wake.ts'

/** What children start from, and the sandbox that it was taken of. */
type Origin = Required<Pick<SandboxRow, 'head' | 'headOf'>>

export interface Fork {
  readonly count: number
  readonly reseed: boolean
  readonly signal?: AbortSignal | undefined
}

/**
 * Children that differ from their parent in nothing but identity. Pre: an exclusive turn. All of them or none; the parent goes on as it
 * was, and one that sleeps is not woken.
 */
export async function fork(body: SandboxBody, request: Fork): Promise<SandboxBody[]> {
  const { parts, row } = body
  await Promise.all([parts.admission.requireDisk(), parts.admission.requireMemory()])
  const began = performance.now()
  const children = Array.from(
    { length: request.count },
    () => new SandboxBody(parts, childOf(row, parts.clock.wallMs())),
  )
  parts.db.quickTransaction(() => {
    for (const child of children) child.write({ intent: 'create' })
    body.write({ intent: 'fork' })
  })
  const burrows: Burrow[] = []
  try {
    const { head, headOf } = await (row.state === 'running' ? forkRunning : forkSleeping)(
      body,
      children,
      request,
      burrows,
    )
    const latencyMs = performance.now() - began
    parts.db.transaction(() => {
      children.forEach((child, index) => {
        for (const listener of parts.listeners) listener.forked?.(row, child.row)
        const burrow = burrows[index]
        if (burrow === undefined) throw new DormouseError('internal', 'A fork is short of a child.')
        child.move('running', {
          change: { head, headOf },
          arrival: { burrow, isContinued: true },
          intent: null,
          entry: { event: 'created', cause: `fork of ${row.id}`, latencyMs },
        })
      })
      body.write({
        intent: null,
        entry: { event: 'forked', cause: 'asked', latencyMs, detail: `${request.count} children` },
      })
    })
    return children
  } catch (error) {
    await Promise.all(burrows.map((burrow) => endBurrow(parts, burrow)))
    takeBack(body, children)
    throw error
  }
}

/** What cannot be written now is found out at the next start: a child that was not finished is nobody's. */
function takeBack(body: SandboxBody, children: readonly SandboxBody[]): void {
  const { parts } = body
  for (const { id } of children) parts.network.forget(id)
  try {
    parts.db.transaction(() => {
      for (const { id } of children) parts.rows.delete(id)
      // What is owed for it ends the intent, too.
      if (!body.isDeleted && body.debts.isEmpty) body.write({ intent: null })
    })
  } catch (error) {
    parts.log.warn({ sandboxId: body.id, err: error }, 'a fork that failed was not taken back')
  }
}

async function forkRunning(
  body: SandboxBody,
  children: readonly SandboxBody[],
  { reseed, signal }: Fork,
  burrows: Burrow[],
): Promise<Origin> {
  const { parts, burrow, row } = body
  if (burrow === undefined) throw new DormouseError('internal', 'A running sandbox has no burrow.')
  await body.sample()
  const sandboxIds = children.map(({ id }) => id)
  const { admission } = parts
  const limitRestore: LimitRestore = (id, restore) =>
    id === body.id ? admission.goOn(restore) : admission.run(row.owner, restore, signal)
  const options = {
    sandboxIds,
    reseed,
    limitRestore,
    onParent: ({ burrow: next, snapshot }: { burrow: Burrow; snapshot: Snapshot }) =>
      recordHead(body, snapshot, next),
    ...(signal && { signal }),
  }
  let savedAs: SnapshotId | undefined
  try {
    const forked = await parts.engine.fork(burrow, options)
    if (forked.resumeError !== undefined) {
      savedAs = forked.snapshot.id
      throw forked.resumeError
    }
    burrows.push(...forked.children)
    return { head: forked.snapshot.id, headOf: row.id }
  } catch (error) {
    // The parent may have continued before something else failed.
    const snapshotId = body.burrow === burrow ? (savedAs ?? (await storedAs(burrow))) : undefined
    if (snapshotId !== undefined) await body.conclude(() => sleepAt(body, snapshotId))
    throw error
  } finally {
    if (body.row.head !== row.head) body.dropSnapshotLater(row.head)
  }
}

async function sleepAt(body: SandboxBody, head: Snapshot['id']): Promise<void> {
  const { parts, row } = body
  const snapshot = await parts.engine.getSnapshot(head)
  await parts.syncRuns()
  body.move('standby', {
    change: { tier: 'stored', head, lostSince: undefined },
    arrival: null,
    intent: null,
    entry: { event: 'slept', cause: 'fork failed', tier: 'stored' },
    alongside: () => parts.snapshots.put(snapshot, { owner: row.owner, isKept: false }),
  })
}

function recordHead(body: SandboxBody, snapshot: Snapshot, burrow: Burrow): void {
  body.write({
    change: { head: snapshot.id, lostSince: undefined },
    arrival: { burrow, isContinued: true },
    alongside: () => body.parts.snapshots.put(snapshot, { owner: body.row.owner, isKept: false }),
  })
}

async function forkSleeping(
  { parts, row }: SandboxBody,
  children: readonly SandboxBody[],
  { reseed, signal }: Fork,
  burrows: Burrow[],
): Promise<Origin> {
  const { head, headOf } = row
  if (head === undefined || headOf === undefined)
    throw new DormouseError('conflict', 'There is nothing to fork yet.')
  parts.quarantine.require(row, head)
  const reason = 'fork' as const
  const options = { ...asNow(parts, row, head), of: headOf, reason, reseed, ...(signal && { signal }) }
  const restored = await Promise.allSettled(
    children.map(({ id: sandboxId }) =>
      parts.admission.run(row.owner, () => parts.engine.restore(head, { ...options, sandboxId })),
    ),
  )
  for (const result of restored) if (result.status === 'fulfilled') burrows.push(result.value)
  const failed = restored.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return { head, headOf }
}

function childOf(parent: SandboxRow, now: number): SandboxRow {
  return {
    ...parent,
    id: newSandboxId() satisfies SandboxId,
    name: undefined,
    state: 'creating',
    tier: undefined,
    head: undefined,
    headOf: undefined,
    burrow: undefined,
    forkedFrom: parent.id,
    createdAt: now,
    lastActiveAt: now,
    stateSince: now,
    lostSince: undefined,
    diskBytes: undefined,
    diskFiles: undefined,
  }
}
