import { DormouseError } from '@dormouse/contracts'
import type { Snapshot } from '@dormouse/engine'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { remove } from './remove.ts'

/**
 * Saves a sandbox and removes it: only the snapshot is left. Pre: the caller holds the lock alone. On failure the
 * sandbox is removed as well. Until a template refers to the snapshot, a server that ends leaves nothing of it.
 */
export async function finish(sandbox: Sandbox, kind: Snapshot['kind']): Promise<Snapshot> {
  requireExists(sandbox)
  const { row, burrow, deps } = sandbox
  if (row.state !== 'running' || burrow === undefined)
    throw new DormouseError('conflict', 'Only a sandbox that runs can be finished.')
  await sandbox.sample()
  // Written before it is saved: recovery removes sandboxes that are being deleted, and snapshots without a row.
  sandbox.move('deleting', { fields: { name: undefined }, intent: 'delete' })
  try {
    const { snapshot } = await deps.engine.snapshot(burrow, { leave: 'gone', kind })
    deps.snapshots.put(snapshot, { owner: row.owner, isKept: false })
    return snapshot
  } finally {
    await remove(sandbox)
  }
}
