import { hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, BurrowEnd, Snapshot } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import type { Move, SandboxBody } from '../sandbox-body.ts'
import type { SandboxDependencies } from '../sandbox-dependencies.ts'
import { remove } from './remove.ts'
import { storedAs } from './standby.ts'

/**
 * Its processes ended although nobody asked: it is asleep now, as it was when it was last saved, and says since when things are lost.
 * What this answers is called in an exclusive turn, until it succeeds.
 */
export function losing(body: SandboxBody, burrow: Burrow, end: BurrowEnd): () => Promise<void> {
  let files: SavedFiles | undefined
  return async () => {
    if (body.burrow !== burrow || body.isDeleted) return
    const { row, parts } = body
    if (row.ephemeral && row.state === 'running') return remove(body)
    const detail = describe(end)
    if (row.state === 'standby') {
      // It was frozen, so all of it is on disk.
      const entry = { event: 'stored', cause: 'processes ended', tier: 'stored', detail } as const
      body.write({ change: { tier: 'stored' }, arrival: null, entry })
      return endBurrow(parts, burrow)
    }
    // Before its files are saved, which may take long: who waits for a run of it waits in vain.
    for (const listener of parts.listeners) listener.lost?.(row)
    files ??= await saveFiles(body, burrow)
    const saved = files.snapshotId === undefined ? [] : [await parts.engine.getSnapshot(files.snapshotId)]
    const areFilesSaved = files.snapshotId !== undefined
    if (!areFilesSaved) body.leftovers.add(burrow)
    body.move('standby', loss(body, saved, { cause: 'processes ended', detail }))
    if (areFilesSaved) await endBurrow(parts, burrow)
    else burrow.release()
  }
}

interface SavedFiles {
  /** Not there when they could not be saved, and stay where they are. */
  readonly snapshotId: SnapshotId | undefined
}

/** What is written when a sandbox has lost its processes and comes back from what was saved of it. Of its files, the newest first. */
export function loss(
  { row, parts }: SandboxBody,
  files: readonly Snapshot[],
  { cause, detail }: { cause: string; detail: string },
): Move {
  const head = row.head === undefined ? undefined : parts.snapshots.get(row.head)
  const since = head?.createdAt ?? row.createdAt
  const [newest] = files
  return {
    change: {
      tier: 'stored',
      lostSince: since,
      // Without a saved memory the files alone are the most that can come back.
      ...(head === undefined && newest !== undefined && { head: newest.id }),
    },
    arrival: null,
    intent: null,
    entry: {
      event: 'lost',
      cause,
      tier: 'stored',
      detail: `${detail} Back to ${new Date(since).toISOString()}.${files.length === 0 ? '' : ` ${FILES_ARE_KEPT}`}`,
    },
    alongside: () => {
      for (const one of files) {
        if (head === undefined && one === newest)
          parts.snapshots.put(one, { owner: row.owner, isKept: false })
        else keepFiles(parts, one, row)
      }
    },
  }
}

export const FILES_ARE_KEPT = 'Its files as they were last are kept as a snapshot.'

export function keepFiles({ snapshots }: SandboxDependencies, files: Snapshot, { owner }: SandboxRow): void {
  snapshots.put(files, { owner, name: 'files before the loss', isKept: true })
}

/** Throws `no_space`: there will be room again. Whatever else is in the way may be there to stay. */
async function saveFiles(body: SandboxBody, burrow: Burrow): Promise<SavedFiles> {
  const { engine, log } = body.parts
  try {
    const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
    return { snapshotId: snapshot.id }
  } catch (error) {
    const snapshotId = await storedAs(burrow)
    if (snapshotId !== undefined) return { snapshotId }
    if (hasErrorCode(error, 'no_space')) throw error
    log.error(
      { sandboxId: body.id, burrowId: burrow.id, err: error },
      'the files of a dead burrow could not be saved; they stay there until the next start',
    )
    return { snapshotId: undefined }
  }
}

function describe(end: BurrowEnd): string {
  if (end.reason !== 'agent_ended') return 'All its processes were ended from outside, or for want of memory.'
  return end.signal === undefined
    ? `Its agent ended with exit code ${end.exitCode}.`
    : `Its agent was ended by signal ${end.signal}, possibly for want of memory.`
}
