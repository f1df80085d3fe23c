import { DormouseError } from '@dormouse/contracts'
import type { SandboxAnswer } from '@dormouse/contracts/http'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { remove } from './remove.ts'
import { takeHead } from './snapshot.ts'

/**
 * Rolls the parent back to a fresh snapshot of its child, so that the parent continues as the child, under its own id
 * and name. Then deletes the child, unless `keep`. A failure leaves both as they were.
 *
 * Holds the locks of both alone. That cannot deadlock: no transition of a sandbox takes the lock of its fork.
 */
export async function promote(child: Sandbox, { keep }: { keep: boolean }): Promise<SandboxAnswer> {
  using _work = child.work.begin('call', 'promote')
  return await child.exclusive(async () => {
    requireExists(child)
    const parent = parentOf(child)
    const { id } = await takeHead(child)
    const view = await parent.rollback(id, `promotion of ${child.id}`)
    // The snapshot stays: it is the head of the parent now.
    if (!keep) await remove(child)
    return view
  })
}

function parentOf({ row, deps }: Sandbox): Sandbox {
  if (row.forkedFrom === undefined)
    throw new DormouseError('conflict', 'This sandbox has no parent: it was not forked.', {
      hint: 'Promote a sandbox that `fork` returned.',
    })
  const parent = deps.sandboxes.find(row.forkedFrom)
  if (parent === undefined || parent.isDeleted || parent.row.owner !== row.owner)
    throw new DormouseError('conflict', `The parent ${row.forkedFrom} of this sandbox was deleted.`, {
      hint: 'Give this sandbox the name of its parent instead.',
    })
  return parent
}
