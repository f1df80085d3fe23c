import { DormouseError, type ProcessEvent } from '@dormouse/contracts'
import type { ProcessInfo } from '@dormouse/engine'
import type { Sandbox } from '../../sandbox/service.ts'

export interface FollowProcess {
  readonly after?: number
  readonly follow?: boolean
  readonly signal: AbortSignal
}

/** The events of a process, from the journal and then as they come, across standby. */
export function followProcess(
  sandbox: Sandbox,
  pid: number,
  { after = -1, follow = true, signal }: FollowProcess,
): AsyncIterable<ProcessEvent> {
  let seen = after
  return sandbox.attach(
    { cause: 'process', what: `following process ${pid}`, signal },
    async function* (guest) {
      for await (const event of guest.processes.events(pid, { after: seen, follow, signal })) {
        seen = event.seq
        yield event
      }
    },
  )
}

/** Throws `not_found`. */
export async function getProcess(sandbox: Sandbox, pid: number, signal?: AbortSignal): Promise<ProcessInfo> {
  const processes = await sandbox.use({ cause: 'process', what: 'listing processes', signal }, (guest) =>
    guest.processes.list(),
  )
  const found = processes.find((process) => process.pid === pid)
  if (found !== undefined) return found
  throw new DormouseError('not_found', `no process ${pid} was started here`, {
    hint: 'List what was started with `GET …/processes`.',
  })
}
