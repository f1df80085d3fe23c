import { formatMs } from '../../format/amounts.ts'
import type { Call } from '../call.ts'
import { shortName } from './ls.ts'

export async function promote(call: Call, ref: string, { keep = false }: { keep?: boolean }): Promise<void> {
  const child = await call.sandbox(ref)
  const began = performance.now()
  const parent = await call.withProgress(
    `Promoting ${shortName(child)}`,
    child.promote({ keep, signal: call.signal }),
  )
  call.printResult(parent.info, `${parent.id}\n`)
  const took = formatMs(performance.now() - began)
  const rest = keep ? 'The fork stays.' : 'The fork is deleted.'
  call.note(`${shortName(parent)} continues as ${shortName(child)} (${took}). ${rest}`)
}
