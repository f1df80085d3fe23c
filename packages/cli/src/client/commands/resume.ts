import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { shortName, stateText } from './ls.ts'

export async function resume(call: Call, ref: string): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const began = performance.now()
  await call.withProgress(`Waking ${shortName(sandbox)}`, sandbox.resume({ signal: call.signal }))
  call.printResult(sandbox.info, `${sandbox.id}\n`)
  call.note(`${shortName(sandbox)}: ${stateText(sandbox.info)} (${formatMs(performance.now() - began)}).`)
}
