import type { RunEvent } from '@dormouse/contracts'

export const PROCESSES_ENDED = 'The processes of the sandbox ended during the run.'
export const MAYBE_NOT_BEGUN =
  'The server ended while it handed this run to its sandbox. The run may not have begun.'

/** The last events of a run whose processes are gone. */
export function lostEvents(after: number, message: string, durationMs: number): RunEvent[] {
  const traceback = `RunLost: ${message}\n`
  return [
    { seq: after + 1, type: 'stderr', data: traceback },
    { seq: after + 2, type: 'error', name: 'RunLost', message, traceback },
    { seq: after + 3, type: 'exit', exitCode: -1, durationMs: Math.max(0, durationMs) },
  ]
}
