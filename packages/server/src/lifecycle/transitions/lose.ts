import type { Burrow, BurrowEnd } from '@dormouse/engine'
import type { SandboxBody } from '../sandbox-body.ts'
import { remove } from './remove.ts'

/**
 * Its processes ended although nobody asked: it is asleep now, as it was when it was last saved, and says since when things are lost.
 * Pre: an exclusive turn.
 */
export async function lose(body: SandboxBody, burrow: Burrow, end: BurrowEnd): Promise<void> {
  if (body.burrow !== burrow || body.isDeleted) return
  const { row, parts } = body
  const detail = describe(end)
  body.leave()
  await burrow.destroy().catch((error: unknown) => {
    parts.log.warn({ sandboxId: body.id, err: error }, 'what is left of a dead burrow could not be removed')
  })
  if (row.state === 'standby') {
    // It was frozen, so all of it is on disk.
    body.write({
      change: { tier: 'stored' },
      entry: { event: 'stored', cause: 'processes ended', tier: 'stored', detail },
    })
    return
  }
  if (row.ephemeral) return remove(body)
  body.move('standby', {
    change: { tier: 'stored', lostSince: lostSince(body) },
    entry: { event: 'lost', cause: 'processes ended', tier: 'stored', detail },
  })
}

/** When the state was saved that it comes back with; its creation, when it comes back from the template. */
export function lostSince(body: SandboxBody): number {
  const { row, parts } = body
  const head = row.head === undefined ? undefined : parts.snapshots.get(row.head)
  return head?.createdAt ?? row.createdAt
}

function describe(end: BurrowEnd): string {
  if (end.reason !== 'agent_ended') return 'All its processes were ended from outside, or for want of memory.'
  return end.signal === undefined
    ? `Its agent ended with exit code ${end.exitCode}.`
    : `Its agent was ended by signal ${end.signal}, possibly for want of memory.`
}
