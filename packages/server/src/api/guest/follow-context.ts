import { DormouseError, type RunEvent } from '@dormouse/contracts'
import type { ContextInfo } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

export interface FollowContext {
  readonly after?: number
  readonly follow?: boolean
  readonly signal: AbortSignal
}

/** Follows the output of a context between its runs, across standby. */
export function followContext(
  sandbox: SandboxHandle,
  name: string,
  { after = -1, follow = true, signal }: FollowContext,
): AsyncIterable<RunEvent> {
  let seen = after
  return sandbox.attach(
    { cause: 'context', what: `following context ${name}`, signal },
    async function* (guest) {
      for await (const event of guest.contexts.output(name, { after: seen, follow, signal })) {
        seen = event.seq
        yield event
      }
    },
  )
}

/** Throws `not_found`. */
export async function getContext(
  sandbox: SandboxHandle,
  name: string,
  signal?: AbortSignal,
): Promise<ContextInfo> {
  const contexts = await sandbox.use({ cause: 'context', what: 'listing contexts', signal }, (guest) =>
    guest.contexts.list(),
  )
  const found = contexts.find(({ context }) => context === name)
  if (found !== undefined) return found
  throw new DormouseError('not_found', `there is no context ${name}`)
}
