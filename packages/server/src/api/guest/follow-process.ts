import { DormouseError, type ProcessEvent } from '@dormouse/contracts'
import type { ProcessInfo } from '@dormouse/engine'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

export interface FollowProcess {
  readonly after?: number
  readonly follow?: boolean
  readonly signal: AbortSignal
}

/** Follows the events of a process: first from the journal, then live, across standby. */
export function followProcess(
  sandbox: SandboxHandle,
  processId: string,
  { after = -1, follow = true, signal }: FollowProcess,
): AsyncIterable<ProcessEvent> {
  let seen = after
  return sandbox.attach(
    { cause: 'process', what: `following process ${processId}`, signal },
    async function* (guest) {
      for await (const event of guest.processes.events(processId, { after: seen, follow, signal })) {
        seen = event.seq
        yield await sandbox.explainProcess(processId, event)
      }
    },
  )
}

/** Finds a process by its id, or by its pid while it runs. Throws `not_found`. */
export async function getProcess(
  sandbox: SandboxHandle,
  processId: string,
  signal?: AbortSignal,
): Promise<ProcessInfo> {
  const processes = await sandbox.use({ cause: 'process', what: 'listing processes', signal }, (guest) =>
    guest.processes.list(),
  )
  const found = processes.find(
    (process) =>
      process.processId === processId || (process.state === 'running' && String(process.pid) === processId),
  )
  if (found !== undefined) return found
  throw new DormouseError('not_found', `there is no process ${processId} that was started through the API`, {
    hint: 'List processes with `GET …/processes`.',
  })
}
