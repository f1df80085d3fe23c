import type { ProcessEvent } from '@dormouse/contracts'
import type { BackendSandbox } from '../backend.ts'
import type { ProcessEventMessage } from '../wire/process.ts'

const ENCODER = new TextEncoder()

/** Follows a process across sleeps of its sandbox. `after`: the `seq` of the last event that is not wanted. */
export function followProcess(
  sandbox: BackendSandbox,
  processId: string,
  { after, signal }: { after: number; signal: AbortSignal },
): AsyncIterable<ProcessEvent> {
  let seen = after
  const what = `following process ${processId}`
  return sandbox.attach({ cause: 'process', what, signal }, async function* (guest) {
    for await (const event of guest.processes.events(processId, { after: seen, follow: true, signal })) {
      seen = event.seq
      yield event
    }
  })
}

/** The message for an event; undefined for events that E2B does not have. `isPty`: its output is one stream. */
export function messageOf(event: ProcessEvent, isPty: boolean): ProcessEventMessage | undefined {
  switch (event.type) {
    case 'start':
      return { event: { event: { case: 'start', value: { pid: event.pid } } } }
    case 'stdout':
    case 'stderr': {
      const output = { case: isPty ? ('pty' as const) : event.type, value: ENCODER.encode(event.data) }
      return { event: { event: { case: 'data', value: { output } } } }
    }
    case 'exit':
      return { event: { event: { case: 'end', value: endOf(event) } } }
    case 'truncated':
      return undefined
  }
}

export const KEEPALIVE: ProcessEventMessage = { event: { event: { case: 'keepalive', value: {} } } }

/** What Go's `os/exec` calls signals, since clients show these texts. */
const SIGNAL_TEXTS: Record<string, string> = {
  SIGKILL: 'killed',
  SIGTERM: 'terminated',
  SIGINT: 'interrupt',
  SIGHUP: 'hangup',
  SIGQUIT: 'quit',
  SIGABRT: 'aborted',
  SIGSEGV: 'segmentation fault',
  SIGPIPE: 'broken pipe',
}

function endOf({ exitCode, signal }: Extract<ProcessEvent, { type: 'exit' }>) {
  if (signal !== undefined) {
    const status = `signal: ${SIGNAL_TEXTS[signal] ?? signal.toLowerCase()}`
    return { exitCode: -1, exited: false, status, error: status }
  }
  const status = `exit status ${exitCode}`
  return { exitCode, exited: true, status, ...(exitCode !== 0 && { error: status }) }
}
