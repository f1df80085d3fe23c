import type { ServerEvent } from 'dormouse'
import { formatTime } from '../../format/amounts.ts'
import type { Call } from '../call.ts'

interface EventsFlags {
  readonly after?: number
}

/** Prints what happens to sandboxes until it is interrupted. */
export async function events(call: Call, ref: string | undefined, { after }: EventsFlags): Promise<void> {
  const sandbox = ref === undefined ? undefined : (await call.sandbox(ref)).id
  for await (const event of call.client.events({ after, sandbox, signal: call.signal })) {
    if (call.isJson) call.printJsonLine(event)
    else call.io.stdout.write(line(event))
  }
}

function line({ type, at, sandboxId = '', data }: ServerEvent): string {
  const words = Object.entries(type === 'sandbox.changed' ? stateOf(data) : data)
    .filter(([, value]) => value !== undefined && typeof value !== 'object')
    .map(([name, value]) => `${name}=${value}`)
  return `${formatTime(at)}  ${type.padEnd(16)}  ${sandboxId.padEnd(19)}  ${words.join(' ')}`
    .trimEnd()
    .concat('\n')
}

function stateOf({ name, state, tier }: ServerEvent['data']): Record<string, unknown> {
  return { name, state, tier }
}
