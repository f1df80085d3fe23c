import type { SandboxId } from '@dormouse/contracts'
import type { Burrow, Snapshot } from '@dormouse/engine'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { removeFiles } from './drop-snapshot.ts'
import { endBurrow } from './end-burrow.ts'
import { findRemains, type Remains, remainsOf } from './recover-remains.ts'
import { type Move, SandboxBody } from './sandbox-body.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'
import type { SandboxRegistry } from './sandbox-registry.ts'
import { FILES_ARE_KEPT, keepFiles, loss } from './transitions/lose.ts'
import { remove } from './transitions/remove.ts'
import { limitsOfProcesses } from './transitions/wake.ts'

export interface Recovery {
  readonly running: number
  readonly standby: number
  readonly lost: number
  readonly removed: number
}

/**
 * Brings the rows, the burrows that live and the snapshots on disk into agreement, whatever the last server was doing when it ended.
 * What was acknowledged stays; what was under way is finished or undone; what belongs to nobody goes.
 *
 * | the row says                    | its burrow | finished, not written down | then it is                                          |
 * |---------------------------------|------------|----------------------------|-----------------------------------------------------|
 * | creating, deleting              | any        | any                        | removed                                             |
 * | running, suspending             | lives      | none, or a snapshot        | running, with that snapshot as its head             |
 * | standby, frozen                 | lives      | none                       | frozen                                              |
 * | any                             | gone       | a snapshot                 | asleep there; nothing is lost                       |
 * | standby, resuming               | gone       | none                       | asleep at its head; nothing is lost                 |
 * | running, suspending             | gone       | none                       | asleep at its head with `lostSince`; ephemeral: removed |
 *
 * `recover-remains.ts` says which burrow is its own; others are ended. Files of dead burrows are kept as snapshots wherever they may hold more than the head.
 */
export async function recover(registry: SandboxRegistry): Promise<Recovery> {
  const { parts } = registry
  const found = await findRemains(parts)
  const intents = new Map(parts.intents.all().map(({ sandboxId, kind }) => [sandboxId, kind]))
  const count = { running: 0, standby: 0, lost: 0, removed: 0 }
  const known = new Set<SandboxId>()
  for (const row of parts.rows.all()) {
    known.add(row.id)
    const body = new SandboxBody(parts, row, { isRecorded: true })
    const intent = intents.get(row.id)
    const remains = remainsOf(parts, row, { found, intent })
    // What was begun matters to nothing else: it may be missing, or older than what happened.
    if (intent === 'change' && remains.burrow !== undefined) await restoreLimits(body, remains.burrow)
    const outcome = await settle(body, remains)
    count[outcome] += 1
    if (outcome !== 'removed') registry.add(body)
  }
  for (const burrow of found.burrows) if (!known.has(burrow.sandboxId)) await endBurrow(parts, burrow)
  await collectSnapshots(parts, found.unrecorded)
  return count
}

async function settle(body: SandboxBody, remains: Remains): Promise<keyof Recovery> {
  const { row, parts } = body
  for (const other of remains.others) await endBurrow(parts, other)
  // A creation that nobody was told of, or a deletion that was: neither is to be.
  if (row.state === 'creating' || row.state === 'deleting') {
    await endBurrow(parts, remains.burrow)
    return removed(body)
  }
  if (remains.burrow !== undefined && (await isAdopted(body, remains.burrow, remains)))
    return row.state === 'standby' ? 'standby' : 'running'
  if (remains.saved !== undefined || row.state === 'standby' || row.state === 'resuming')
    return rest(body, remains)
  if (row.ephemeral) return removed(body)
  for (const listener of parts.listeners) listener.lost?.(row)
  move(body, 'standby', {
    ...loss(body, remains.files, {
      cause: 'host ended',
      detail: 'The host went down, or its processes did.',
    }),
  })
  return 'lost'
}

async function removed(body: SandboxBody): Promise<keyof Recovery> {
  await remove(body)
  return 'removed'
}

/** False when it is frozen and cannot be had again: all of it is on disk. */
async function isAdopted(body: SandboxBody, burrow: Burrow, remains: Remains): Promise<boolean> {
  const { row, parts } = body
  const { saved, files, worthless } = remains
  const arrival = { burrow, isContinued: true, isAdopted: true }
  if (row.state === 'standby') {
    try {
      // Rows say `running` before anything is thawed, so nothing has happened in it since.
      await burrow.freeze()
    } catch (error) {
      parts.log.warn({ sandboxId: row.id, err: error }, 'a frozen burrow is left for its snapshot')
      await endBurrow(parts, burrow)
      return false
    }
    body.write({ arrival, intent: null, alongside: () => record(body, { kept: files, worthless }) })
    return true
  }
  await burrow.thaw().catch((error: unknown) => {
    parts.log.error({ sandboxId: row.id, err: error }, 'a burrow that was adopted could not be thawed')
  })
  move(body, 'running', {
    change: { tier: undefined, stateSince: parts.clock.wallMs(), ...(saved && { head: saved.id }) },
    arrival,
    intent: null,
    entry: { event: 'adopted', cause: 'server start', detail: describe(row, files) },
    alongside: () => record(body, { head: saved, kept: files, worthless }),
  })
  body.work.touch()
  return true
}

/** A change that was under way is not in the row, but may have come as far as its processes. */
async function restoreLimits({ id, row, parts }: SandboxBody, burrow: Burrow): Promise<void> {
  await burrow.setLimits(limitsOfProcesses(row.limits)).catch((error: unknown) => {
    parts.log.warn(
      { sandboxId: id, err: error },
      'a sandbox has other limits than its row until it next wakes',
    )
  })
}

/** Everything is on disk. */
function rest(body: SandboxBody, { saved, files, worthless }: Remains): keyof Recovery {
  const { row, parts } = body
  const wasStored = row.state === 'standby' && row.tier === 'stored'
  // Files that there was no room for when their sandbox was lost, without anything else to come back from.
  const head = saved ?? (row.head === undefined ? files[0] : undefined)
  const kept = files.filter((one) => one !== head)
  const isNews = !wasStored || head !== undefined || kept.length > 0
  move(body, 'standby', {
    change: {
      tier: 'stored',
      stateSince: wasStored ? row.stateSince : parts.clock.wallMs(),
      ...(head && { head: head.id }),
      ...(saved && { lostSince: undefined }),
    },
    arrival: null,
    intent: null,
    ...(isNews && {
      entry: { event: 'stored', cause: 'server start', tier: 'stored', detail: describe(row, kept) },
    }),
    alongside: () => record(body, { head, kept, worthless }),
  })
  return 'standby'
}

function describe({ state }: SandboxRow, kept: readonly Snapshot[]): string {
  return kept.length === 0 ? `was ${state}` : `was ${state}; ${FILES_ARE_KEPT}`
}

/**
 * What is worthless is doomed in the transaction that ends the intent: without the intent, the next recovery would take it for
 * what a loss has left.
 */
function record(
  { row, parts }: SandboxBody,
  {
    head,
    kept,
    worthless,
  }: { head?: Snapshot | undefined; kept: readonly Snapshot[]; worthless: readonly Snapshot[] },
): void {
  if (head !== undefined) parts.snapshots.put(head, { owner: row.owner, isKept: false })
  for (const one of kept) keepFiles(parts, one, row)
  for (const { id } of worthless) parts.snapshots.delete(id)
}

function move(body: SandboxBody, to: 'running' | 'standby', move: Move): void {
  if (body.row.state === to) body.write(move)
  else body.move(to, move)
}

async function collectSnapshots(parts: SandboxDependencies, unrecorded: readonly Snapshot[]): Promise<void> {
  const { snapshots, log } = parts
  const known = snapshots.ids()
  const strays = unrecorded.filter(({ id }) => !known.has(id)).map(({ id }) => id)
  for (const id of [...snapshots.unused(), ...strays]) snapshots.delete(id)
  for (const id of snapshots.doomed()) {
    try {
      await removeFiles(parts, id)
    } catch (error) {
      log.warn({ snapshotId: id, err: error }, 'a snapshot that nobody needs could not be removed')
    }
  }
}

export function describeRecovery({ running, standby, lost, removed }: Recovery): string {
  const parts = [`${running} running`, `${standby} asleep`]
  if (lost > 0) parts.push(`${lost} back from their last snapshot`)
  if (removed > 0) parts.push(`${removed} unfinished removed`)
  return parts.join(', ')
}
