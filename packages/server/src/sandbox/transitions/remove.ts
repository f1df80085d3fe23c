import { dropSnapshot } from '../drop-snapshot.ts'
import type { Sandbox } from '../sandbox.ts'

/** Calls under way get this long to end by themselves before their processes are ended. */
const CALLS_END_MS = 1_000
/** Of all background work on sandboxes. Each removal has the processes of a sandbox, with its memory. */
const BACKGROUND_MAX = 16

/** Deletes a sandbox with all that it has. Calls into it end with its processes. */
export function deleteSandbox(sandbox: Sandbox): Promise<void> {
  return endingCalls(sandbox, async () => {
    if (!sandbox.isRemoved) await remove(sandbox)
  })
}

/**
 * Resolves when the sandbox is gone for callers, and stays so over a crash. Its processes and files are removed
 * afterwards, unless many removals are under way already. With volumes it waits for all: its caller may want to delete
 * them.
 */
export async function deleteSandboxSoon(sandbox: Sandbox): Promise<void> {
  const { background, log } = sandbox.deps
  await endingCalls(sandbox, async () => {
    if (!sandbox.isRemoved) await markDeleted(sandbox)
  })
  const removal = deleteSandbox(sandbox).catch((err: unknown) =>
    log.error({ err, sandboxId: sandbox.id }, 'a sandbox could not be removed; the next start tries again'),
  )
  background.add(removal)
  const removed = removal.finally(() => background.delete(removal))
  if (background.size > BACKGROUND_MAX || sandbox.row.volumes.length > 0) await removed
}

/** Holds the lock alone. */
async function endingCalls(sandbox: Sandbox, work: () => Promise<void>): Promise<void> {
  // The lock waits for calls, and a call may last: ending its processes ends it. If that fails, the removal tries again
  // and reports it.
  const endCalls = setTimeout(() => void sandbox.burrow?.destroy().catch(() => {}), CALLS_END_MS)
  try {
    await sandbox.lock.write(work)
  } finally {
    clearTimeout(endCalls)
  }
}

/** Once the row says `deleting` there is no way back: the next server finishes it. */
async function markDeleted(sandbox: Sandbox): Promise<void> {
  // First: a host that takes over must not find a sandbox whose deletion was acknowledged.
  if (!sandbox.isDeleted) await sandbox.deps.ownership?.release(sandbox.row)
  if (sandbox.row.state === 'running') await sandbox.sample()
  const withoutSync = endsWithItsProcesses(sandbox)
  if (!sandbox.isDeleted)
    sandbox.move('deleting', { fields: { name: undefined }, intent: 'delete', withoutSync })
}

/** After a power cut it is removed, whatever the row says: it never had a snapshot of its own to wake from. */
function endsWithItsProcesses({ row: { ephemeral, state, id, head, headOf } }: Sandbox): boolean {
  return ephemeral && state === 'running' && (head === undefined || headOf !== id)
}

/** Pre: the caller holds the lock alone. */
export async function remove(sandbox: Sandbox): Promise<void> {
  const { row, burrow, deps } = sandbox
  await markDeleted(sandbox)
  const burrows = [burrow, ...sandbox.pendingWrites.burrows, ...sandbox.unsavedBurrows]
  await Promise.all(burrows.map((one) => one?.destroy()))
  sandbox.leaveBurrow()
  // Does not wait for the disk: the next start finds the row again, and finishes.
  deps.db.transactionWithoutSync(() => deps.rows.delete(row.id))
  deps.network.forget(row.id)
  for (const listener of deps.listeners) listener.deleted?.(row)
  sandbox.isRemoved = true
  deps.sandboxes.remove(sandbox)
  await dropSnapshot(deps, row.head)
  deps.lineage.forget(row.id)
}
