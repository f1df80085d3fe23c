import type { SnapshotId } from '@dormouse/contracts'
import type { Burrow, Snapshot } from '@dormouse/engine'
import type { IntentKind } from '../store/intent-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** What the last server left behind. */
export interface Found {
  /** Those that live. */
  readonly burrows: readonly Burrow[]
  /** On disk, but neither on record nor deleted: whoever took them did not come to write them down. The newest first. */
  readonly unrecorded: readonly Snapshot[]
  /** Those among them that hold the files of dead burrows that were there until now. */
  readonly ofTheDead: ReadonlySet<SnapshotId>
}

/** What is left of one sandbox, besides its row. */
export interface Remains {
  /** The one that it lives in. */
  readonly burrow: Burrow | undefined
  /** Leftovers: a wake or a rollback that nobody was told of, burrows that were to go and did not. */
  readonly others: readonly Burrow[]
  /** Newer than its head, with everything that it was. */
  readonly saved: Snapshot | undefined
  /** What may have been written after all that was saved. The newest first. */
  readonly files: readonly Snapshot[]
  /** Files that hold nothing of worth: they are deleted. */
  readonly worthless: readonly Snapshot[]
}

export async function findRemains({ engine, snapshots }: SandboxDependencies): Promise<Found> {
  const { burrows, lost } = await engine.adoptBurrows()
  const known = snapshots.ids()
  const doomed = snapshots.doomed()
  const unrecorded = (await engine.listSnapshots())
    .filter(({ id }) => !known.has(id) && !doomed.has(id))
    .sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
  return {
    burrows,
    unrecorded,
    ofTheDead: new Set(lost.flatMap(({ filesSnapshotId }) => filesSnapshotId ?? [])),
  }
}

export function remainsOf(
  { snapshots }: SandboxDependencies,
  row: SandboxRow,
  { found, intent }: { found: Found; intent: IntentKind | undefined },
): Remains {
  const burrows = found.burrows.filter(({ sandboxId }) => sandboxId === row.id)
  const unrecorded = found.unrecorded.filter(({ sandboxId }) => sandboxId === row.id)
  const head = row.head === undefined ? undefined : snapshots.get(row.head)
  const isNewer = ({ parent, createdAt }: Snapshot) =>
    head === undefined || parent === head.id || createdAt.getTime() > head.createdAt
  const saved = unrecorded.find((snapshot) => snapshot.kind === 'full' && isNewer(snapshot))
  const burrow = chooseBurrow(row, burrows, saved)
  const isAtRest = row.state === 'standby' || row.state === 'resuming' || saved !== undefined
  const headId = saved?.id ?? row.head
  const hasMore = ({ id, parent }: Snapshot): boolean => {
    // The burrow that a rollback was to end, or the one that it did not come to: nothing is lost as long as the row's own lives.
    if (intent === 'rollback' && (burrow !== undefined || isAtRest)) return false
    // Of processes that live on: a snapshot of files that nobody was told of.
    if (burrow !== undefined && intent === 'snapshot' && !found.ofTheDead.has(id)) return false
    // One that was frozen, or had just come from the head. With something lost before, it may be what there was no room for at the time.
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
 * The one that its row names. A row that says that it is on disk only has none, whatever lives; a wake that was not written down has begun
 * nothing that anybody knows of.
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
  // Rows from before they named burrows.
  if (row.burrow === undefined) return newest
  // It went on from a snapshot that was not written down.
  const isItsNext = newest !== undefined && saved !== undefined && newest.createdAt >= saved.createdAt
  return isItsNext ? newest : undefined
}
