import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { shortName, stateText } from './ls.ts'

export async function standby(
  call: Call,
  ref: string,
  { stored, cluster }: { stored?: boolean; cluster?: boolean },
): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const began = performance.now()
  const work = sandbox.idle({
    ...(stored === true ? { tier: 'stored' } : {}),
    ...(cluster === true ? { durability: 'cluster' } : {}),
    signal: call.signal,
  })
  await call.withProgress(`Putting ${shortName(sandbox)} to sleep`, work)
  call.printResult(sandbox.info, `${sandbox.id}\n`)
  const took = formatMs(performance.now() - began)
  call.note(`${shortName(sandbox)}: ${stateText(sandbox.info)} (${took}). Any command wakes it.`)
}
