import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { findByReference } from '../find-sandbox.ts'
import { shortName } from './ls.ts'

export async function rollback(call: Call, ref: string, snapshotRef: string): Promise<void> {
  const { client, signal } = call
  const sandbox = await call.sandbox(ref)
  const own = await client.snapshots.list({ sandboxId: sandbox.id, signal }).all()
  const snapshot = findByReference(snapshotRef, own, {
    what: `snapshot of ${shortName(sandbox)}`,
    idPrefix: 'sn-',
    list: `dormouse snapshot ls ${shortName(sandbox)}`,
  })
  const began = performance.now()
  await call.withProgress(`Rolling back ${shortName(sandbox)}`, sandbox.rollback(snapshot, { signal }))
  call.printResult(sandbox.info, `${sandbox.id}\n`)
  call.note(
    `Rolled ${shortName(sandbox)} back to ${shortName(snapshot)} (${formatMs(performance.now() - began)}).`,
  )
}
