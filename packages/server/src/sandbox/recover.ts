import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Burrow, Snapshot } from '@dormouse/engine'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { removeFiles } from './drop-snapshot.ts'
import { endBurrow } from './end-burrow.ts'
import { findRemains, isAtRest, type Remains, remainsOf } from './recover-remains.ts'
import { Sandbox } from './sandbox.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'
import type { StateChange } from './state-change.ts'
import { timerWakeAt } from './timer-wakes.ts'
import { FILES_ARE_KEPT, keepFiles, lossChange } from './transitions/lose.ts'
import { remove } from './transitions/remove.ts'
import { processLimits } from './transitions/restore-options.ts'

export interface Recovery {
  readonly running: number
  readonly standby: number
  readonly lost: number
  readonly removed: number
}

/**
 * Makes rows, live burrows and snapshots on disk agree, whatever the last server was doing when it ended. What was
 * acknowledged stays, what was under way is finished or undone, and what no row refers to is removed.
 *
 * | the row says        | its burrow | not on record | then the sandbox is                                     |
 * |---------------------|------------|---------------|---------------------------------------------------------|
 * | creating, deleting  | any        | any           | removed                                                 |
 * | running, suspending | lives      | any           | running; a snapshot becomes its head                    |
 * | standby, frozen     | lives      | nothing       | frozen                                                  |
 * | any                 | gone       | a snapshot    | asleep at that snapshot; nothing is lost                |
 * | standby, resuming   | gone       | nothing       | asleep at its head; nothing is lost                     |
 * | running, suspending | gone       | nothing       | asleep at its head with `lostSince`; ephemeral: removed |
 *
 * `recover-remains.ts` finds the burrow of each sandbox; other burrows are ended. Files of dead burrows are kept as
 * snapshots wherever they may hold more than the head.
 */
export async function recover(deps: SandboxDependencies): Promise<Recovery> {
  const found = await findRemains(deps)
  for (const id of found.undone) undoFork(deps, id)
  const intents = new Map(deps.intents.all().map(({ sandboxId, kind }) => [sandboxId, kind]))
  const count = { running: 0, standby: 0, lost: 0, removed: 0 }
  const known = new Set<SandboxId>()
  for (const row of deps.rows.all()) {
    known.add(row.id)
    const sandbox = new Sandbox(deps, row, 'an earlier server')
    const intent = intents.get(row.id)
    if (isAtRest(row, { found, intent })) {
      count.standby += 1
      deps.sandboxes.add(sandbox)
      continue
    }
    const remains = remainsOf(deps, row, { found, intent })
    // Nothing else depends on the intent: it may be missing, or older than what happened.
    if (intent === 'change' && remains.burrow !== undefined) await restoreLimits(sandbox, remains.burrow)
    const outcome = await settle(sandbox, remains)
    count[outcome] += 1
    if (outcome !== 'removed') deps.sandboxes.add(sandbox)
  }
  for (const burrow of found.burrows) if (!known.has(burrow.sandboxId)) await endBurrow(deps, burrow)
  await collectSnapshots(deps, found.unrecorded)
  deps.lineage.prune()
  return count
}

/**
 * After a power cut: the parent of a fork that was not on disk goes back to the head it had before, and its children
 * to their template, as if they had never slept.
 */
function undoFork({ db, rows, snapshots, log }: SandboxDependencies, id: SnapshotId): void {
  const undone = snapshots.get(id)
  const former = undone?.parent === undefined ? undefined : snapshots.get(undone.parent)
  db.transaction(() => {
    for (const row of rows.all()) {
      if (row.head !== id) continue
      const isParent = row.headOf === row.id
      const head = isParent && former !== undefined ? former : undefined
      rows.put({ ...row, head: head?.id, headOf: head?.sandboxId }, row)
    }
    snapshots.delete(id)
  })
  log.warn({ snapshotId: id }, 'the machine stopped before a fork was on disk')
}

async function settle(sandbox: Sandbox, remains: Remains): Promise<keyof Recovery> {
  const { row, deps } = sandbox
  for (const other of remains.others) await endBurrow(deps, other)
  // The caller never heard of the creation, or has heard of the deletion.
  if (row.state === 'creating' || row.state === 'deleting') {
    await endBurrow(deps, remains.burrow)
    return removed(sandbox)
  }
  if (remains.burrow !== undefined && (await isAdopted(sandbox, remains.burrow, remains)))
    return row.state === 'standby' ? 'standby' : 'running'
  if (remains.saved !== undefined || row.state === 'standby' || row.state === 'resuming')
    return restOnDisk(sandbox, remains)
  if (row.ephemeral) return removed(sandbox)
  for (const listener of deps.listeners) listener.lost?.(row)
  move(sandbox, 'standby', {
    ...lossChange(sandbox, remains.files, {
      cause: 'host ended',
      detail: 'The host went down, or its processes did.',
    }),
  })
  return 'lost'
}

async function removed(sandbox: Sandbox): Promise<keyof Recovery> {
  await remove(sandbox)
  return 'removed'
}

/** False when a frozen burrow cannot be used again. Its snapshot holds all of it. */
async function isAdopted(sandbox: Sandbox, burrow: Burrow, remains: Remains): Promise<boolean> {
  const { row, deps } = sandbox
  const { saved, files, worthless } = remains
  const newBurrow = { burrow, isContinued: true, isAdopted: true }
  if (row.state === 'standby') {
    try {
      // Rows say `running` before a burrow is thawed, so it has not changed since its snapshot.
      await burrow.freeze()
    } catch (error) {
      deps.log.warn(
        { sandboxId: row.id, err: error },
        'a frozen burrow could not be adopted; its sandbox wakes from its snapshot',
      )
      await endBurrow(deps, burrow)
      return false
    }
    sandbox.write({
      newBurrow,
      intent: null,
      inTransaction: () => record(sandbox, { kept: files, worthless }),
    })
    return true
  }
  await burrow.thaw().catch((error: unknown) => {
    deps.log.error({ sandboxId: row.id, err: error }, 'an adopted burrow could not be thawed')
  })
  move(sandbox, 'running', {
    fields: { tier: undefined, stateSince: deps.clock.wallMs(), ...(saved && { head: saved.id }) },
    newBurrow,
    intent: null,
    entry: { event: 'adopted', cause: 'server start', detail: describe(row, files) },
    inTransaction: () => record(sandbox, { head: saved, kept: files, worthless }),
  })
  sandbox.work.touch()
  return true
}

/** A change that was under way is not in the row, but may have reached the limits of the burrow. */
async function restoreLimits({ id, row, deps }: Sandbox, burrow: Burrow): Promise<void> {
  await burrow.setLimits(processLimits(row)).catch((error: unknown) => {
    deps.log.warn(
      { sandboxId: id, err: error },
      'a sandbox may have other limits than its row until it next wakes',
    )
  })
}

/** The sandbox is on disk only. */
function restOnDisk(sandbox: Sandbox, { saved, files, worthless }: Remains): keyof Recovery {
  const { row, deps } = sandbox
  const wasStored = row.state === 'standby' && row.tier === 'stored'
  // Files that could not be saved when the sandbox lost its processes: without a head, it comes back with them.
  const head = saved ?? (row.head === undefined ? files[0] : undefined)
  const kept = files.filter((one) => one !== head)
  const isNews = !wasStored || head !== undefined || kept.length > 0
  move(sandbox, 'standby', {
    fields: {
      tier: 'stored',
      stateSince: wasStored ? row.stateSince : deps.clock.wallMs(),
      ...(head && { head: head.id }),
      ...(saved && { lostSince: undefined, wakesAt: timerWakeAt(sandbox, saved) }),
    },
    newBurrow: null,
    intent: null,
    ...(isNews && {
      entry: { event: 'stored', cause: 'server start', tier: 'stored', detail: describe(row, kept) },
    }),
    inTransaction: () => record(sandbox, { head, kept, worthless }),
  })
  return 'standby'
}

function describe({ state }: SandboxRow, kept: readonly Snapshot[]): string {
  return kept.length === 0 ? `was ${state}` : `was ${state}; ${FILES_ARE_KEPT}`
}

/**
 * Worthless snapshots are deleted in the transaction that ends the intent: without the intent, the next recovery
 * would take them for the files of a loss.
 */
function record(
  { row, deps }: Sandbox,
  {
    head,
    kept,
    worthless,
  }: { head?: Snapshot | undefined; kept: readonly Snapshot[]; worthless: readonly Snapshot[] },
): void {
  if (head !== undefined) deps.snapshots.put(head, { owner: row.owner, isKept: false })
  for (const one of kept) keepFiles(deps, one, row)
  for (const { id } of worthless) deps.snapshots.delete(id)
}

function move(sandbox: Sandbox, to: 'running' | 'standby', change: StateChange): void {
  if (sandbox.row.state === to) sandbox.write(change)
  else sandbox.move(to, change)
}

async function collectSnapshots(deps: SandboxDependencies, unrecorded: readonly Snapshot[]): Promise<void> {
  const { snapshots, log } = deps
  const known = snapshots.ids()
  const strays = unrecorded.filter(({ id }) => !known.has(id)).map(({ id }) => id)
  for (const id of [...snapshots.unused(), ...strays]) snapshots.delete(id)
  for (const id of snapshots.doomed()) {
    try {
      await removeFiles(deps, id)
    } catch (error) {
      log.warn({ snapshotId: id, err: error }, 'an unused snapshot could not be removed')
    }
  }
}

export function describeRecovery({ running, standby, lost, removed }: Recovery): string {
  const counts = [`${running} running`, `${standby} asleep`]
  if (lost > 0) counts.push(`${lost} back from their last snapshot`)
  if (removed > 0) counts.push(`${removed} unfinished removed`)
  return counts.join(', ')
}
