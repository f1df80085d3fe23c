import { hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, BurrowEnd, Snapshot } from '@dormouse/engine'
import type { SandboxRow } from '../../store/sandbox-rows.ts'
import type { SnapshotRows } from '../../store/snapshot-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import { capitalised, howToRaise } from '../memory-words.ts'
import type { Sandbox } from '../sandbox.ts'
import type { SandboxDependencies } from '../sandbox-dependencies.ts'
import type { StateChange } from '../state-change.ts'
import { remove } from './remove.ts'
import { storedAs } from './standby.ts'

/**
 * Records that the processes of a burrow ended, and no caller asked for that. Retries until it is recorded. Never
 * rejects.
 */
export async function recordLoss(sandbox: Sandbox, burrow: Burrow, end: BurrowEnd): Promise<void> {
  try {
    await sandbox.lock.write(async () => {
      sandbox.pendingWrites.add({ write: lossOf(sandbox, burrow, end) })
      await sandbox.flushPendingWrites()
    })
  } catch (error) {
    const fields = { sandboxId: sandbox.id, burrowId: burrow.id, err: error }
    sandbox.deps.log.error(fields, 'the end of a burrow is not recorded yet')
  }
}

/**
 * Returns a function that puts the sandbox back to its last snapshot and records since when changes are lost. Call it
 * with the lock held alone, until it succeeds.
 */
export function lossOf(sandbox: Sandbox, burrow: Burrow, end: BurrowEnd): () => Promise<void> {
  let files: SavedFiles | undefined
  return async () => {
    if (sandbox.burrow !== burrow || sandbox.isDeleted) return
    const { row, deps } = sandbox
    if (row.ephemeral && row.state === 'running') return remove(sandbox)
    const detail = await describe(sandbox, burrow, end)
    if (row.state === 'standby') {
      // It was frozen, so all of it is on disk.
      const entry = { event: 'stored', cause: 'processes ended', tier: 'stored', detail } as const
      sandbox.write({ fields: { tier: 'stored' }, newBurrow: null, entry })
      return endBurrow(deps, burrow)
    }
    // Saving the files may take long; callers that wait for a run must not wait for that.
    for (const listener of deps.listeners) listener.lost?.(row)
    files ??= await saveFiles(sandbox, burrow)
    const saved = files.snapshotId === undefined ? [] : [await deps.engine.getSnapshot(files.snapshotId)]
    const areFilesSaved = files.snapshotId !== undefined
    if (!areFilesSaved) sandbox.unsavedBurrows.add(burrow)
    sandbox.move('standby', lossChange(sandbox, saved, { cause: 'processes ended', detail }))
    if (areFilesSaved) await endBurrow(deps, burrow)
    else burrow.release()
  }
}

interface SavedFiles {
  /** Undefined: they could not be saved, and stay where they are. */
  readonly snapshotId: SnapshotId | undefined
}

/** What is written when a sandbox has lost its processes. `files`: snapshots of its files, newest first. */
export function lossChange(
  { row, deps }: Sandbox,
  files: readonly Snapshot[],
  { cause, detail }: { cause: string; detail: string },
): StateChange {
  const head = row.head === undefined ? undefined : deps.snapshots.get(row.head)
  const since = head?.createdAt ?? row.createdAt
  const [newest] = files
  return {
    fields: {
      tier: 'stored',
      lostSince: since,
      // Without a snapshot of its memory, it comes back with its files alone.
      ...(head === undefined && newest !== undefined && { head: newest.id }),
    },
    newBurrow: null,
    intent: null,
    entry: {
      event: 'lost',
      cause,
      tier: 'stored',
      detail: `${detail} Back to ${new Date(since).toISOString()}.${files.length === 0 ? '' : ` ${FILES_ARE_KEPT}`}`,
    },
    inTransaction: () => {
      for (const one of files) {
        if (head === undefined && one === newest) deps.snapshots.put(one, { owner: row.owner, isKept: false })
        else keepFiles(deps, one, row)
      }
    },
  }
}

export const FILES_ARE_KEPT = 'Its files as they were last are kept as a snapshot.'

export function keepFiles({ snapshots }: SandboxDependencies, files: Snapshot, { owner }: SandboxRow): void {
  snapshots.put(files, { owner, name: freeName(snapshots, files), isKept: true })
}

/** `files-before-loss`, or the first of `files-before-loss-2` and so on that is free. */
function freeName(snapshots: SnapshotRows, { id, sandboxId }: Snapshot): string {
  for (let count = 1; ; count += 1) {
    const name = count === 1 ? 'files-before-loss' : `files-before-loss-${count}`
    const other = snapshots.findNamed(sandboxId, name)
    if (other === undefined || other.id === id) return name
  }
}

/**
 * Throws `no_space`, because there will be room again. Other failures may persist, so the files stay in the dead
 * burrow.
 */
async function saveFiles(sandbox: Sandbox, burrow: Burrow): Promise<SavedFiles> {
  const { engine, log } = sandbox.deps
  try {
    const { snapshot } = await engine.snapshot(burrow, { kind: 'files', leave: 'gone' })
    return { snapshotId: snapshot.id }
  } catch (error) {
    const snapshotId = await storedAs(burrow)
    if (snapshotId !== undefined) return { snapshotId }
    if (hasErrorCode(error, 'no_space')) throw error
    log.error(
      { sandboxId: sandbox.id, burrowId: burrow.id, err: error },
      'the files of a dead burrow could not be saved; they stay there until the next start',
    )
    return { snapshotId: undefined }
  }
}

async function describe({ memory, row }: Sandbox, burrow: Burrow, end: BurrowEnd): Promise<string> {
  const why = await memory.claimKill(burrow.id)
  if (why !== undefined) return `${capitalised(why)}, and Linux killed its agent. ${howToRaise(row)}`
  if (end.reason !== 'agent_ended') return 'All its processes were ended from outside, or for want of memory.'
  return end.signal === undefined
    ? `Its agent ended with exit code ${end.exitCode}.`
    : `Its agent was ended by signal ${end.signal}, possibly for want of memory.`
}
