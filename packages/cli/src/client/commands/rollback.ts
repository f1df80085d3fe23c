import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { pick } from '../find-sandbox.ts'
import { shortName } from './ls.ts'

export async function rollback(call: Call, ref: string, snapshotRef: string): Promise<void> {
  const { client, signal } = call
  const sandbox = await call.sandbox(ref)
  const own = await client.snapshots.list({ sandboxId: sandbox.id, signal }).all()
  const snapshot = pick(snapshotRef, own, {
    what: `snapshot of ${shortName(sandbox)}`,
    idPrefix: 'sn-',
    list: `dormouse snapshot ls ${shortName(sandbox)}`,
  })
  const began = performance.now()
  await call.during(`Bringing ${shortName(sandbox)} back`, sandbox.rollback(snapshot, { signal }))
  call.answer(sandbox.info, `${sandbox.id}\n`)
  call.note(
    `${shortName(sandbox)} is back at ${shortName(snapshot)} (${formatMs(performance.now() - began)}).`,
  )
}
