import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { omitUndefinedOrNone } from '../omit-undefined.ts'
import { type PolicyFlags, toPolicy } from '../policy-flags.ts'
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
  const { state: before } = sandbox.info
  const info = await sandbox.update({ ...change, signal: call.signal })
  call.printResult(info, `${info.id}\n`)
  // Raising the limit of a sandbox that was paused at it wakes the sandbox.
  const isWoken = before === 'standby' && info.state === 'running'
  call.note(`Changed ${shortName(info)}${isWoken ? '; it is awake again' : ' without waking it'}.`)
}

function changeOf({ name, metadata, ephemeral, ...flags }: UpdateFlags) {
  const policy = toPolicy(flags)
  if (flags.expires === false && policy.expires !== undefined)
    throw new UsageError('--no-expires contradicts --expires-after and --expires-idle')
  const change = omitUndefinedOrNone({
    ...policy,
    name: name === false ? null : name,
    metadata: metadata === false ? {} : metadata,
    ephemeral,
    expires: flags.expires === false ? null : policy.expires,
  })
  if (change !== undefined) return change
  throw new UsageError('there is nothing to change', 'Run `dormouse update --help` for the flags.')
}
