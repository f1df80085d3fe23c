import { setTimeout as sleep } from 'node:timers/promises'
import { onAbort } from '@dormouse/async'
import { DormouseError, type Language } from '@dormouse/contracts'
import type { TaskResultAnswer } from '@dormouse/contracts/http'
import type { Run, Runs, StartRunRequest } from '../runs/runs.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import { bindInput } from './bind-input.ts'
import type { JobRow } from './job-rows.ts'
import { RECORD_RETRY_MS, TIMEOUT_GRACE_MS } from './limits.ts'
import { TaskResultCollector } from './task-result.ts'
import type { Attempt } from './task-rows.ts'

export type AttemptOutcome =
  | { readonly kind: 'ended'; readonly result: TaskResultAnswer }
  /** It did not begin. */
  | { readonly kind: 'refused'; readonly error: unknown }
  /** It began, and how far it came is unknown. */
  | { readonly kind: 'lost'; readonly message: string }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'stopped' }

export interface AttemptParts {
  readonly runs: Pick<Runs, 'start'>
  /** The sandbox of the attempt, awake; created if it does not exist. */
  readonly open: (signal: AbortSignal) => Promise<SandboxHandle>
  readonly signal: AbortSignal
}

/**
 * Runs an attempt to its end. An attempt that an earlier server began continues: its runs have keys, so none of them
 * starts twice in the same sandbox.
 */
export async function runAttempt(
  { request }: Pick<JobRow, 'request'>,
  attempt: Attempt,
  { runs, open, signal }: AttemptParts,
): Promise<AttemptOutcome> {
  const limit = new AbortController()
  using _stop = onAbort(signal, () => limit.abort())
  const timer = setTimeout(() => limit.abort(), request.timeoutMs + TIMEOUT_GRACE_MS)
  let hasBegun = false
  try {
    const sandbox = await open(limit.signal)
    hasBegun = true
    return await runIn(sandbox, request, attempt, { runs, signal: limit.signal })
  } catch (error) {
    if (signal.aborted) return { kind: 'stopped' }
    if (limit.signal.aborted) return { kind: 'timed_out' }
    if (!hasBegun) return { kind: 'refused', error }
    return { kind: 'lost', message: error instanceof Error ? error.message : String(error) }
  } finally {
    clearTimeout(timer)
  }
}

async function runIn(
  sandbox: SandboxHandle,
  { code, command, language = 'python', context, variable, timeoutMs }: JobRow['request'],
  attempt: Attempt,
  { runs, signal }: Pick<AttemptParts, 'runs' | 'signal'>,
): Promise<AttemptOutcome> {
  const written: Language = command === undefined ? language : 'bash'
  const bound = bindInput({ code: code ?? command ?? '', language: written, variable }, attempt)
  const key = `${attempt.jobId}.${attempt.index}.${attempt.attempts}`
  const where = context === undefined ? {} : { context }
  if (bound.before !== undefined) {
    const result = await runToEnd(
      await runs.start(sandbox, { ...bound.before, ...where, timeoutMs, idempotencyKey: `${key}.input` }),
      signal,
    )
    if (result.exitCode !== 0) return outcomeOf(result)
  }
  const request: StartRunRequest = {
    code: bound.code,
    language: written,
    ...where,
    timeoutMs,
    idempotencyKey: key,
  }
  return outcomeOf(await runToEnd(await runs.start(sandbox, request), signal))
}

/** The server ends runs whose processes are gone in this way. */
function outcomeOf(result: TaskResultAnswer): AttemptOutcome {
  const isLost = result.exitCode === -1 && result.error?.name === 'RunLost'
  return isLost ? { kind: 'lost', message: result.error?.message ?? '' } : { kind: 'ended', result }
}

/** Reads a run again when reading fails: the journal may be on a full disk, or the agent may not answer for a while. */
async function runToEnd(run: Run, signal: AbortSignal): Promise<TaskResultAnswer> {
  for (;;) {
    try {
      const collector = new TaskResultCollector(run.runId)
      for await (const event of run.events({ signal })) collector.add(event)
      signal.throwIfAborted()
      if (collector.hasEnded) return collector.result()
      throw new DormouseError('burrow_ended', 'The sandbox of the task was deleted.', { hint: '' })
    } catch (error) {
      const isOver = error instanceof DormouseError && (error.code === 'burrow_ended' || !error.retry)
      if (signal.aborted || isOver || !(error instanceof DormouseError)) throw error
      await sleep(RECORD_RETRY_MS, undefined, { signal })
    }
  }
}
