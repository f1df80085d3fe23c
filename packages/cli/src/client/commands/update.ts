import type { Call } from '../call.ts'
import { definedOrNothing } from '../defined.ts'
import { type PolicyFlags, policyOf } from '../policy-flags.ts'
import { UsageProblem } from '../problem.ts'
import { shortName } from './ls.ts'

export interface UpdateFlags extends PolicyFlags {
  readonly name?: string | false
  readonly metadata?: Record<string, string> | false
  readonly ephemeral?: boolean
  /** False: --no-expires. */
  readonly expires?: boolean
}

export async function update(call: Call, ref: string, flags: UpdateFlags): Promise<void> {
  const change = changeOf(flags)
  const sandbox = await call.sandbox(ref)
  const info = await sandbox.update({ ...change, signal: call.signal })
  call.answer(info, `${info.id}\n`)
  call.note(`${shortName(info)} is changed, and was not woken for it.`)
}

function changeOf({ name, metadata, ephemeral, ...flags }: UpdateFlags) {
  const policy = policyOf(flags)
  if (flags.expires === false && policy.expires !== undefined)
    throw new UsageProblem('--no-expires contradicts a time after which it expires')
  const change = definedOrNothing({
    ...policy,
    name: name === false ? null : name,
    metadata: metadata === false ? {} : metadata,
    ephemeral,
    expires: flags.expires === false ? null : policy.expires,
  })
  if (change !== undefined) return change
  throw new UsageProblem('nothing was said to change', '`dormouse update --help` lists what can be.')
}
