import { newRunId, type RunId } from '@dormouse/contracts'
import type { Guest, StartRun } from '../guest.ts'
import { collect } from './collect.ts'

/**
 * Starts a run that the test does not follow. Resolves when the guest has accepted it, rejects when the guest
 * refuses it.
 */
export async function startRun(guest: Guest, request: StartRun): Promise<RunId> {
  const runId = request.runId ?? newRunId()
  const leave = new AbortController()
  const followed = collect(guest.runs.stream({ ...request, runId }, { signal: leave.signal }))
  // The guest takes requests in order: when it knows the run, it has accepted it.
  await Promise.race([followed, collect(guest.runs.events(runId, { follow: false }))])
  leave.abort()
  followed.catch(() => {})
  return runId
}
