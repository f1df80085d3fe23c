import type { SandboxBody } from '../sandbox-body.ts'

/** Ends it for good. Pre: an exclusive turn. Once the row says so there is no way back: a next server finishes it. */
export async function remove(body: SandboxBody): Promise<void> {
  const { row, burrow, parts } = body
  if (row.state === 'running') await body.sample()
  if (!body.isDeleted) body.move('deleting', { change: { name: undefined }, intent: 'delete' })
  await Promise.all([burrow, ...body.debts.burrows, ...body.leftovers].map((one) => one?.destroy()))
  body.leave()
  parts.rows.delete(row.id)
  parts.network.forget(row.id)
  for (const listener of parts.listeners) listener.deleted?.(row)
  body.isRemoved = true
  await body.dropSnapshot(row.head)
}
