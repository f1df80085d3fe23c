import { DormouseError } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import type { Move, SandboxBody } from '../sandbox-body.ts'
import { asNow } from './wake.ts'

/** Goes back to an older state. Pre: an exclusive turn. One that sleeps stays asleep and wakes up there. */
export async function rollback(body: SandboxBody, to: SnapshotRow): Promise<void> {
  const { row, burrow, parts } = body
  const began = parts.now()
  const outcome = (): Move => ({
    change: { head: to.id, lostSince: undefined, diskBytes: undefined },
    intent: null,
    entry: {
      event: 'rolled_back',
      cause: 'asked',
      latencyMs: parts.now() - began,
      detail: to.name ?? to.id,
    },
    // Looked at in the transaction: what is a head once this is written is not deleted any more, what was deleted before must not become one.
    alongside: () => requireSnapshot(body, to),
  })
  if (row.state === 'running') {
    const next = await startThere(body, to)
    try {
      // From here on the new one counts, also for a server that finds both.
      body.write({ ...outcome(), arrival: { burrow: next, isContinued: false } })
    } catch (error) {
      await endBurrow(parts, next)
      throw error
    }
    body.work.touch()
  } else {
    // Read before anything changes: one that cannot be restored must not become the head.
    await parts.engine.getSnapshot(to.id)
    const { change, ...rest } = outcome()
    body.write({ ...rest, change: { ...change, tier: 'stored' }, arrival: null })
    parts.secrets.forget(body)
  }
  await endBurrow(parts, burrow)
  if (row.head !== to.id) body.dropSnapshotLater(row.head)
}

/** The old burrow ends only when the new one answers. */
async function startThere(body: SandboxBody, to: SnapshotRow): Promise<Burrow> {
  const { row, parts } = body
  await body.sample()
  const options = { sandboxId: row.id, ...asNow(parts, row, to.id), reason: 'rollback' as const }
  return parts.admission.run(row.owner, () => parts.engine.restore(to.id, options))
}

function requireSnapshot({ parts }: SandboxBody, { id }: SnapshotRow): void {
  if (parts.snapshots.get(id) !== undefined) return
  throw new DormouseError('not_found', `There is no snapshot ${id}.`, {
    hint: 'It was deleted meanwhile; the sandbox is as it was.',
  })
}
