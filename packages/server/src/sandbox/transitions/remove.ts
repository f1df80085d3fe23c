import { dropSnapshot } from '../drop-snapshot.ts'
import type { Sandbox } from '../sandbox.ts'

/** Calls under way get this long to end by themselves before their processes are ended. */
const CALLS_END_MS = 1_000

/** Deletes a sandbox with all that it has. Calls into it end with its processes. */
export async function deleteSandbox(sandbox: Sandbox): Promise<void> {
  // The lock waits for calls, and a call may last: ending its processes ends it. If that fails, the removal below tries
  // again and reports it.
  const endCalls = setTimeout(() => void sandbox.burrow?.destroy().catch(() => {}), CALLS_END_MS)
  try {
    await sandbox.lock.write(async () => {
      if (!sandbox.isRemoved) await remove(sandbox)
    })
  } finally {
    clearTimeout(endCalls)
  }
}

/**
 * Pre: the caller holds the lock alone. Once the row says `deleting` there is no way back: the next server finishes
 * it.
 */
export async function remove(sandbox: Sandbox): Promise<void> {
  const { row, burrow, deps } = sandbox
  if (row.state === 'running') await sandbox.sample()
  if (!sandbox.isDeleted) sandbox.move('deleting', { fields: { name: undefined }, intent: 'delete' })
  const burrows = [burrow, ...sandbox.pendingWrites.burrows, ...sandbox.unsavedBurrows]
  await Promise.all(burrows.map((one) => one?.destroy()))
  sandbox.leaveBurrow()
  deps.rows.delete(row.id)
  deps.network.forget(row.id)
  for (const listener of deps.listeners) listener.deleted?.(row)
  sandbox.isRemoved = true
  deps.sandboxes.remove(sandbox)
  await dropSnapshot(deps, row.head)
  deps.lineage.forget(row.id)
}
