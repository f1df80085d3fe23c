import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Burrow, Snapshot } from '@dormouse/engine'
import type { IntentKind } from '../store/intent-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** What the last server left on this host. */
export interface Found {
  /** Burrows that live. */
  readonly burrows: readonly Burrow[]
  readonly burrowsOf: ReadonlyMap<SandboxId, readonly Burrow[]>
  /** Snapshots without a row that were not deleted: the server ended before it recorded them. Newest first. */
  readonly unrecorded: readonly Snapshot[]
  readonly unrecordedOf: ReadonlyMap<SandboxId, readonly Snapshot[]>
  /** Which of them hold the files of burrows that died. */
  readonly ofDeadBurrows: ReadonlySet<SnapshotId>
  /** Snapshots of forks that were not on disk when the machine stopped. */
  readonly undone: ReadonlySet<SnapshotId>
}

/** What is left of one sandbox besides its row. */
export interface Remains {
  /** The burrow that it lives in. */
  readonly burrow: Burrow | undefined
  /** Other burrows of it: of a wake or rollback that was not acknowledged, or that were to end and did not. */
  readonly others: readonly Burrow[]
  /** A full snapshot that is newer than its head. */
  readonly saved: Snapshot | undefined
  /** Snapshots of files that may hold more than the head. Newest first. */
  readonly files: readonly Snapshot[]
  /** Snapshots of files that hold no more than the head; they are deleted. */
  readonly worthless: readonly Snapshot[]
}

export async function findRemains({ engine, snapshots }: SandboxDependencies): Promise<Found> {
  const { burrows, lost, undone } = await engine.adoptBurrows()
  // Left out before they are read: with thousands of snapshots, reading all would take most of a start.
  const except = new Set([...snapshots.ids(), ...snapshots.doomed()])
  const unrecorded = [...(await engine.listSnapshots({ except }))].sort(
    (a, b) => b.createdAt.getTime() - a.createdAt.getTime(),
  )
  return {
    burrows,
    burrowsOf: bySandbox(burrows),
    unrecorded,
    unrecordedOf: bySandbox(unrecorded),
    ofDeadBurrows: new Set(lost.flatMap(({ filesSnapshotId }) => filesSnapshotId ?? [])),
    undone: new Set(undone),
  }
}

function bySandbox<Item extends { readonly sandboxId: SandboxId }>(
  items: readonly Item[],
): ReadonlyMap<SandboxId, readonly Item[]> {
  const found = new Map<SandboxId, Item[]>()
  for (const item of items) {
    const same = found.get(item.sandboxId)
    if (same === undefined) found.set(item.sandboxId, [item])
    else same.push(item)
  }
  return found
}

/** Whether a stored sandbox is as its row says, as most are: then there is nothing to do, and nothing to write. */
export function isAtRest(
  row: SandboxRow,
  { found, intent }: { found: Found; intent: IntentKind | undefined },
): boolean {
  const isStored = row.state === 'standby' && row.tier === 'stored' && row.burrow === undefined
  return isStored && intent === undefined && !found.burrowsOf.has(row.id) && !found.unrecordedOf.has(row.id)
}

export function remainsOf(
  { snapshots }: SandboxDependencies,
  row: SandboxRow,
  { found, intent }: { found: Found; intent: IntentKind | undefined },
): Remains {
  const burrows = found.burrowsOf.get(row.id) ?? []
  const unrecorded = found.unrecordedOf.get(row.id) ?? []
  const head = row.head === undefined ? undefined : snapshots.get(row.head)
  const isNewer = ({ parent, createdAt }: Snapshot) =>
    head === undefined || parent === head.id || createdAt.getTime() > head.createdAt
  const saved = unrecorded.find((snapshot) => snapshot.kind === 'full' && isNewer(snapshot))
  const burrow = chooseBurrow(row, burrows, saved)
  const isAtRest = row.state === 'standby' || row.state === 'resuming' || saved !== undefined
  const headId = saved?.id ?? row.head
  const hasMore = ({ id, parent }: Snapshot): boolean => {
    // Of the burrow that a rollback was to end, or of the one it did not reach: the burrow of the row has everything.
    if (intent === 'rollback' && (burrow !== undefined || isAtRest)) return false
    // A snapshot of files that was not acknowledged, of processes that still live.
    if (burrow !== undefined && intent === 'snapshot' && !found.ofDeadBurrows.has(id)) return false
    // Of a burrow that was frozen, or restored from the head and not used. After a loss, it may hold files that could
    // not be saved then.
    return !(isAtRest && row.lostSince === undefined && parent === headId)
  }
  const files = unrecorded.filter((snapshot) => snapshot.kind === 'files')
  return {
    burrow,
    others: burrows.filter((other) => other !== burrow),
    saved,
    files: files.filter(hasMore),
    worthless: files.filter((snapshot) => !hasMore(snapshot)),
  }
}

/**
 * The burrow that the row names. A row of tier `stored` has none, whatever lives. A wake that was not recorded has
 * run nothing that a caller knows of.
 */
function chooseBurrow(
  row: SandboxRow,
  burrows: readonly Burrow[],
  saved: Snapshot | undefined,
): Burrow | undefined {
  if (row.state === 'resuming' || row.tier === 'stored') return undefined
  const named = burrows.find(({ id }) => id === row.burrow)
  if (named !== undefined) return named
  const [newest] = [...burrows].sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
  // Rows of versions that did not record burrows.
  if (row.burrow === undefined) return newest
  // It continued from a snapshot that was not recorded.
  const isItsNext = newest !== undefined && saved !== undefined && newest.createdAt >= saved.createdAt
  return isItsNext ? newest : undefined
}
