import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { shortName } from './ls.ts'

interface ForkFlags {
  readonly count: number
  readonly reseed: boolean
}

export async function fork(call: Call, ref: string, { count, reseed }: ForkFlags): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const began = performance.now()
  const children = await call.withProgress(
    `Forking ${shortName(sandbox)}`,
    sandbox.fork(count, { reseed, signal: call.signal }),
  )
  call.printResult(
    { children: children.map(({ info }) => info) },
    children.map(({ id }) => `${id}\n`).join(''),
  )
  const took = formatMs(performance.now() - began)
  call.note(`Forked ${shortName(sandbox)} into ${children.length} in ${took}. The parent still runs.`)
}
