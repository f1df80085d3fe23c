import { DormouseError, hasErrorCode } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import { findSnapshot, noSuchSnapshot } from '../find-snapshot.ts'
import type { Sandbox } from '../sandbox.ts'
import type { StateChange } from '../state-change.ts'
import { currentOptions } from './restore-options.ts'

export interface Rollback {
  /** A snapshot by id, by name, or as `SANDBOX/NAME`. */
  readonly to: string
  /** For the ledger. */
  readonly cause: string
}

/**
 * Puts a sandbox back to a snapshot of its own or of its lineage. Pre: the caller holds the lock alone. A sleeping
 * sandbox stays asleep.
 */
export async function rollbackTo(sandbox: Sandbox, rollback: Rollback): Promise<void> {
  const { row, burrow, deps } = sandbox
  const found = findSnapshot(deps, rollback.to, { owner: row.owner, sandboxId: row.id })
  if (found?.owner === row.owner) await deps.elsewhere?.bring(found.id)
  const to = relatedSnapshot(sandbox, rollback.to)
  const began = performance.now()
  deps.quarantine.require(row, to.id)
  // Lasts until the old burrow is gone: recovery then knows that its files are not those of a loss.
  sandbox.write({ intent: 'rollback', withoutSync: true })
  try {
    await moveTo(sandbox, to, { cause: rollback.cause, began })
  } catch (error) {
    endIntent(sandbox)
    throw error
  }
  await endBurrow(deps, burrow)
  endIntent(sandbox)
  if (row.head !== to.id) sandbox.dropSnapshotLater(row.head)
}

/** An intent that a full disk keeps on record is harmless: the next transition replaces it. */
function endIntent(sandbox: Sandbox): void {
  try {
    sandbox.write({ intent: null, withoutSync: true })
  } catch (error) {
    sandbox.deps.log.warn({ sandboxId: sandbox.id, err: error }, 'the end of a rollback is not recorded')
  }
}

/** Post: the row says that the sandbox is at `to`. A failure leaves it where it was. */
async function moveTo(
  sandbox: Sandbox,
  to: SnapshotRow,
  { cause, began }: { cause: string; began: number },
): Promise<void> {
  const { row, deps } = sandbox
  const outcome = (): StateChange => ({
    fields: {
      head: to.id,
      headOf: to.sandboxId,
      lostSince: undefined,
      diskBytes: undefined,
      diskFiles: undefined,
      pausedAtBytes: undefined,
    },
    entry: {
      event: 'rolled_back',
      cause,
      latencyMs: performance.now() - began,
      detail: to.name ?? to.id,
    },
    // Checked in the transaction: a deleted snapshot must not become a head, and a head cannot be deleted.
    inTransaction: () => requireSnapshot(sandbox, to),
  })
  if (row.state === 'running') {
    const next = await restoreAt(sandbox, to)
    try {
      // From here on the new burrow counts, also for recovery that finds both.
      sandbox.write({ ...outcome(), newBurrow: { burrow: next, isContinued: false } })
    } catch (error) {
      await endBurrow(deps, next)
      throw error
    }
    sandbox.work.touch()
  } else {
    // Read before anything changes: a snapshot that cannot be restored must not become the head.
    await deps.engine.getSnapshot(to.id)
    const { fields, ...rest } = outcome()
    sandbox.write({ ...rest, fields: { ...fields, tier: 'stored' }, newBurrow: null })
    deps.secrets.forget(sandbox)
  }
}

/** The old burrow stays until the new one answers. */
async function restoreAt(sandbox: Sandbox, to: SnapshotRow): Promise<Burrow> {
  const { row, deps } = sandbox
  await sandbox.sample()
  const whose = { sandboxId: row.id, of: to.sandboxId }
  const options = { ...whose, ...currentOptions(deps, row, to.id), reason: 'rollback' as const }
  return deps.starts.run(row.owner, () =>
    deps.engine.restore(to.id, options).catch((error: unknown) => {
      throw hasErrorCode(error, 'in_use') ? lockIsHeld(error) : error
    }),
  )
}

/** The old burrow keeps its locks until the new one answers, so that a failure leaves the sandbox where it was. */
function lockIsHeld(cause: DormouseError): DormouseError {
  const { details } = cause
  return new DormouseError(
    'in_use',
    `The snapshot has a lock on ${details['path']}, which this sandbox or another one holds now.`,
    {
      hint: 'Give the lock back first. If this sandbox holds it, you can also put it to standby in tier `stored`, roll back, and wake it.',
      details,
      cause,
    },
  )
}

function requireSnapshot({ deps }: Sandbox, { id }: SnapshotRow): void {
  if (deps.snapshots.get(id) !== undefined) return
  throw new DormouseError('not_found', `There is no snapshot ${id}.`, {
    hint: 'It was deleted meanwhile; the sandbox is as it was.',
  })
}

/** A snapshot of this sandbox, or of one that it was forked from or that was forked from it, at any depth. */
function relatedSnapshot({ row, deps }: Sandbox, ref: string): SnapshotRow {
  const snapshot = findSnapshot(deps, ref, { owner: row.owner, sandboxId: row.id })
  if (snapshot === undefined || snapshot.owner !== row.owner) throw noSuchSnapshot(ref)
  if (deps.lineage.isRelated(snapshot.sandboxId, row.id)) return snapshot
  throw new DormouseError('conflict', `Snapshot ${ref} is of a sandbox that is not related to this one.`, {
    hint: 'A sandbox rolls back to its own snapshots and to those of its forks and of what it was forked from. Create a sandbox from this snapshot instead.',
  })
}
