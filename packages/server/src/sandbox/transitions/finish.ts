import { DormouseError } from '@dormouse/contracts'
import type { Snapshot } from '@dormouse/engine'
import type { SandboxBody } from '../sandbox-body.ts'
import { remove } from './remove.ts'

/**
 * Saves it and ends it for good: nothing is left of it but the snapshot. Pre: an exclusive turn. On failure it has ended as well.
 * The snapshot is not kept by anybody until a template refers to it: a server that ends before that leaves nothing.
 */
export async function finish(body: SandboxBody, kind: Snapshot['kind']): Promise<Snapshot> {
  const { row, burrow, parts } = body
  if (row.state !== 'running' || burrow === undefined)
    throw new DormouseError('conflict', 'Only a sandbox that runs can be finished.')
  await body.sample()
  // Before it is saved: a next server removes what this row calls deleted, and snapshots that are not on record.
  body.move('deleting', { change: { name: undefined }, intent: 'delete' })
  try {
    const { snapshot } = await parts.engine.snapshot(burrow, { leave: 'gone', kind })
    parts.snapshots.put(snapshot, { owner: row.owner, isKept: false })
    return snapshot
  } finally {
    await remove(body)
  }
}
