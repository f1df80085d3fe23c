import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { findSnapshot } from '../find-snapshot.ts'
import { shortName } from './ls.ts'

export async function rollback(call: Call, ref: string, snapshotRef: string): Promise<void> {
  const { signal } = call
  const sandbox = await call.sandbox(ref)
  const snapshot = await findSnapshot(call, snapshotRef, sandbox)
  const began = performance.now()
  await call.withProgress(`Rolling back ${shortName(sandbox)}`, sandbox.rollback(snapshot, { signal }))
  call.printResult(sandbox.info, `${sandbox.id}\n`)
  call.note(
    `Rolled ${shortName(sandbox)} back to ${shortName(snapshot)} (${formatMs(performance.now() - began)}).`,
  )
}
