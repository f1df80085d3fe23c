import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import type { SandboxBody } from '../sandbox-body.ts'
import { asNow } from './wake.ts'

/** Goes back to an older state. Pre: an exclusive turn. One that sleeps stays asleep and wakes up there. */
export async function rollback(body: SandboxBody, to: SnapshotRow): Promise<void> {
  const { row, burrow, parts } = body
  const began = parts.now()
  const entry = () => ({
    event: 'rolled_back' as const,
    cause: 'asked',
    latencyMs: parts.now() - began,
    detail: to.name ?? to.id,
  })
  if (row.state === 'running' && burrow !== undefined) {
    await body.sample()
    body.write({ intent: 'rollback' })
    try {
      // The old burrow ends only when the new one answers.
      const options = { sandboxId: row.id, ...asNow(parts, row, to.id), reason: 'rollback' as const }
      const next = await parts.admission.run(row.owner, () => parts.engine.restore(to.id, options))
      body.enter(next, { isContinued: false })
      await burrow.destroy()
    } catch (error) {
      body.write({ intent: null })
      throw error
    }
    body.work.touch()
    body.write({
      change: { head: to.id, lostSince: undefined, diskBytes: undefined },
      intent: null,
      entry: entry(),
    })
  } else {
    // Read before anything changes: one that cannot be restored must not become the head.
    await parts.engine.getSnapshot(to.id)
    body.leave()
    parts.secrets.forget(body)
    body.write({
      change: { head: to.id, tier: 'stored', lostSince: undefined, diskBytes: undefined },
      entry: entry(),
    })
    await burrow?.destroy()
  }
  if (row.head !== to.id) body.dropSnapshotLater(row.head)
}
