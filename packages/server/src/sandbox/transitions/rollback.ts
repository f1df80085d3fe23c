import { DormouseError } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { SnapshotRow } from '../../store/snapshot-rows.ts'
import { endBurrow } from '../end-burrow.ts'
import type { Move, SandboxBody } from '../sandbox-body.ts'
import { asNow } from './wake.ts'

/** Goes back to an older state. Pre: an exclusive turn. One that sleeps stays asleep and wakes up there. */
export async function rollback(body: SandboxBody, to: SnapshotRow): Promise<void> {
  const { row, burrow, parts } = body
  const began = performance.now()
  parts.quarantine.require(row, to.id)
  // Until the burrow before is gone: what recovery finds of it is not what a loss has left.
  body.write({ intent: 'rollback', isQuick: true })
  try {
    await goThere(body, to, began)
  } catch (error) {
    endIntent(body)
    throw error
  }
  await endBurrow(parts, burrow)
  endIntent(body)
  if (row.head !== to.id) body.dropSnapshotLater(row.head)
}

/** One that a full disk keeps on record changes nothing: the next transition replaces it. */
function endIntent(body: SandboxBody): void {
  try {
    body.write({ intent: null, isQuick: true })
  } catch (error) {
    body.parts.log.warn({ sandboxId: body.id, err: error }, 'the end of a rollback was not written down')
  }
}

/** Post: the row says that it is there. A failure leaves it where it was. */
async function goThere(body: SandboxBody, to: SnapshotRow, began: number): Promise<void> {
  const { row, parts } = body
  const outcome = (): Move => ({
    change: {
      head: to.id,
      headOf: to.sandboxId,
      lostSince: undefined,
      diskBytes: undefined,
      diskFiles: undefined,
    },
    entry: {
      event: 'rolled_back',
      cause: 'asked',
      latencyMs: performance.now() - began,
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
}

/** The old burrow ends only when the new one answers. */
async function startThere(body: SandboxBody, to: SnapshotRow): Promise<Burrow> {
  const { row, parts } = body
  await body.sample()
  const whose = { sandboxId: row.id, of: to.sandboxId }
  const options = { ...whose, ...asNow(parts, row, to.id), reason: 'rollback' as const }
  return parts.admission.run(row.owner, () => parts.engine.restore(to.id, options))
}

function requireSnapshot({ parts }: SandboxBody, { id }: SnapshotRow): void {
  if (parts.snapshots.get(id) !== undefined) return
  throw new DormouseError('not_found', `There is no snapshot ${id}.`, {
    hint: 'It was deleted meanwhile; the sandbox is as it was.',
  })
}
