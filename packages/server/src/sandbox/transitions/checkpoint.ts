import { DormouseError } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { Sandbox } from '../sandbox.ts'
import { reasonOf } from '../sandbox-errors.ts'
import type { StateChange } from '../state-change.ts'
import { bytesOf, type Saved, save } from './standby.ts'

/**
 * Saves a running sandbox, which continues from what was saved. Returns how long it was stopped at most; undefined when
 * it does not run. Pre: the caller holds the lock alone. After a refusal the sandbox runs as before.
 *
 * Does not wait until the snapshot is on disk: a power cut before that leads back to the checkpoint before it.
 */
export async function checkpoint(sandbox: Sandbox): Promise<number | undefined> {
  const { row, burrow, deps } = sandbox
  if (row.state !== 'running' || burrow === undefined) return undefined
  try {
    deps.quotas.requireDisk(row.owner)
    await Promise.all([deps.starts.requireDisk(), sandbox.sample()])
    sandbox.write({ intent: 'snapshot', withoutSync: true })
    const began = performance.now()
    const saved = await save(sandbox, burrow, 'running', { isUnsynced: true })
    const pauseMs = performance.now() - began
    const synced = deps.journal.sync()
    await sandbox.recordOutcome(() => record(sandbox, saved, pauseMs), saved.burrow)
    await synced
    return pauseMs
  } catch (error) {
    if (sandbox.burrow === burrow && sandbox.pendingWrites.isEmpty) recordRefusal(sandbox, burrow, error)
    throw error
  }
}

async function record(sandbox: Sandbox, saved: Saved, latencyMs: number): Promise<void> {
  const { row, deps } = sandbox
  const snapshot = await saved.snapshot()
  const isAsleep = saved.burrow === undefined
  // What a row calls `stored` is on disk.
  if (isAsleep) await deps.engine.syncSnapshot(snapshot.id)
  // Kernels are not asked: the answer of a busy one would take longer than the checkpoint.
  const variables = deps.variables.find(row.head)
  const written: StateChange = {
    // `lostSince` stays, so that a later caller learns of a loss.
    fields: { head: snapshot.id, ...(isAsleep && { tier: 'stored' }) },
    newBurrow: saved.burrow === undefined ? null : { burrow: saved.burrow, isContinued: true },
    intent: null,
    entry: { event: 'snapshot', cause: 'checkpoint', latencyMs, bytes: bytesOf(snapshot) },
    inTransaction: () => {
      deps.snapshots.put(snapshot, { owner: row.owner, isKept: false })
      if (variables !== undefined) deps.variables.put(snapshot.id, variables)
    },
  }
  if (isAsleep) sandbox.move('standby', written)
  else sandbox.write(written)
  if (row.head !== undefined) sandbox.dropFormerHead(row.head, snapshot.id)
}

function recordRefusal(sandbox: Sandbox, { sandboxId }: Burrow, error: unknown): void {
  const { log } = sandbox.deps
  try {
    sandbox.write({
      intent: null,
      entry: { event: 'refused', cause: 'checkpoint', detail: reasonOf(error) },
    })
  } catch (err) {
    // Probably a full disk. The intent is harmless: the next transition replaces it.
    log.warn({ sandboxId, err }, 'the refusal of a checkpoint is not recorded')
  }
  if (!(error instanceof DormouseError)) log.error({ sandboxId, err: error }, 'a checkpoint failed')
}
