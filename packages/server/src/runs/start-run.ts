import { createHash } from 'node:crypto'
import { DormouseError, defaultContextOf, newRunId } from '@dormouse/contracts'
import type { StartRun } from '@dormouse/engine'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import { keptCode } from './kept-code.ts'
import { RUN_OVERHEAD_BYTES } from './limits.ts'
import type { LiveRun } from './live-run.ts'
import type { LiveRuns } from './live-runs.ts'
import type { RunRow } from './run-rows.ts'
import type { StartRunRequest } from './runs.ts'

export interface StartedRun {
  readonly row: RunRow
  /** Undefined when an earlier request with the same `idempotencyKey` started the run. */
  readonly live: LiveRun | undefined
}

/** Writes the row of a run and hands the run to its sandbox. Resolves when it has begun, or waits behind others. */
export async function startRun(
  runs: LiveRuns,
  sandbox: Pick<SandboxHandle, 'id' | 'attachRun' | 'runningBurrow' | 'thawNow'>,
  { idempotencyKey, ...asked }: StartRunRequest,
): Promise<StartedRun> {
  const { journal, space, clock } = runs.deps
  const requestHash = idempotencyKey === undefined ? undefined : hashOf(asked)
  const findEarlier = () =>
    idempotencyKey === undefined ? undefined : journal.byKey(sandbox.id, idempotencyKey)
  // Before the row, which then needs no request: writing it and dropping it again takes longer than the thaw.
  const thaw = findEarlier() === undefined ? sandbox.thawNow('run') : undefined
  if (thaw !== undefined) await thaw
  const earlier = findEarlier()
  if (earlier !== undefined) {
    if (earlier.requestHash !== requestHash)
      throw new DormouseError('idempotency_mismatch', 'This idempotencyKey was used for another request.')
    await runs.find(earlier)?.begun()
    return { row: earlier, live: undefined }
  }
  const context = asked.context ?? defaultContextOf(asked.language)
  const request: StartRun = {
    code: asked.code,
    ...(asked.language !== undefined && { language: asked.language }),
    context,
    ...(asked.timeoutMs !== undefined && { timeoutMs: asked.timeoutMs }),
    ...(asked.input === true && { input: true }),
  }
  const kept = keptCode(asked.code)
  const row = journal.add({
    kept,
    sandboxId: sandbox.id,
    runId: newRunId(),
    context,
    // If the context has another one, the agent says so when the run begins.
    language: asked.language ?? 'python',
    idempotencyKey,
    requestHash,
    startedAt: clock.wallMs(),
    // A sleeping sandbox gets the run after its wake, perhaps from the next server. One that is awake gets it at once.
    ...(sandbox.runningBurrow() === undefined && { request }),
  })
  space.charge(sandbox.id, RUN_OVERHEAD_BYTES + kept.bytes)
  const live = runs.follow({ sandbox, row, request })
  await live.begun()
  return { row, live }
}

function hashOf(request: Omit<StartRunRequest, 'idempotencyKey'>): string {
  const { code, language, context, timeoutMs, input } = request
  return createHash('sha256')
    .update(JSON.stringify([code, language, context, timeoutMs, ...(input === true ? ['input'] : [])]))
    .digest('base64url')
}
