import { Sandbox } from '../sandbox.ts'
import type { Fork } from './fork.ts'
import { childOf } from './forked-child.ts'
import { takeHead } from './snapshot.ts'

/**
 * Makes children that sleep at the present state of their parent: they need no memory here, and no more disk than a sleep
 * of the parent, which always finds room. A running parent continues. Pre: the caller holds the lock alone.
 */
export async function forkAsleep(sandbox: Sandbox, { count }: Fork): Promise<Sandbox[]> {
  const { deps } = sandbox
  using _room = deps.quotas.holdNew(sandbox.row, count)
  const began = performance.now()
  const head = await takeHead(sandbox)
  const { row } = sandbox
  const now = deps.clock.wallMs()
  const at = { state: 'standby', tier: 'stored', head: head.id, headOf: head.sandboxId } as const
  const rows = Array.from({ length: count }, () => ({ ...childOf(row, now), ...at }))
  const latencyMs = performance.now() - began
  deps.db.transaction(() => {
    for (const child of rows) {
      deps.rows.put(child)
      deps.lineage.put(child.id, row.id)
      for (const listener of deps.listeners) listener.forked?.(row, child)
      deps.ledger.add(child.id, now, { event: 'created', cause: `fork of ${row.id}`, latencyMs })
    }
  })
  const children = rows.map((child) => new Sandbox(deps, child))
  for (const child of children) {
    deps.sandboxes.add(child)
    for (const listener of deps.listeners) listener.changed?.(child.row, child.row)
  }
  return children
}
