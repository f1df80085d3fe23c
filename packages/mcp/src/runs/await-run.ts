import { onAbort } from '@dormouse/async'
import type { Sandbox } from 'dormouse'
import type { ToolAnswer, ToolCall } from '../tool.ts'
import { NO_NETWORK_FAILURES, networkFailuresSince } from './network-failures.ts'
import { type RunFields, runAnswer } from './run-answer.ts'
import { RunOutput } from './run-output.ts'
import type { ToolRun, ToolRunStatus } from './tool-run.ts'

export interface AwaitRun extends ToolCall {
  readonly sandbox: Sandbox
  readonly waitMs: number
  /** Only events after this one. */
  readonly after?: number | undefined
  /** Known if the run is not new. */
  readonly status?: ToolRunStatus | undefined
  readonly note?: string | undefined
}

/** Waits for the end of a run, but not longer than `waitMs`, and describes what it has written. */
export async function awaitRun(run: ToolRun, options: AwaitRun): Promise<ToolAnswer<RunFields>> {
  const { conversation, sandbox, signal, endedBy, waitMs, after = -1 } = options
  const output = new RunOutput(after)
  try {
    if (waitMs > 0 && options.status?.state !== 'finished') await follow(run, output, options)
    // At least once: everything written until now is in the answer.
    if (output.exit === undefined)
      for (const event of await run.read(output.lastEvent, signal)) output.add(event)
  } catch (error) {
    if (!signal.aborted) throw error
    // The run may have ended by itself.
    if (endedBy() === 'user') await run.stop().catch(() => {})
    else conversation.cutOff = run
    throw error
  }
  const hasFailed = output.error !== undefined || (output.exit?.exitCode ?? 0) !== 0
  const status = output.exit === undefined || hasFailed ? await run.status(signal) : undefined
  const network =
    hasFailed && status ? await networkFailuresSince(sandbox, status.startedAt, signal) : NO_NETWORK_FAILURES
  return runAnswer(output, { sandbox, id: run.id, status, network, note: options.note })
}

/** Collects events until the run ends or `waitMs` have passed. Throws if the call ends first. */
async function follow(
  run: ToolRun,
  output: RunOutput,
  { waitMs, signal, onOutput }: AwaitRun,
): Promise<void> {
  const stop = new AbortController()
  using _listener = onAbort(signal, () => stop.abort(signal.reason))
  const timer = setTimeout(() => stop.abort(), waitMs)
  try {
    for await (const event of run.follow(output.lastEvent, stop.signal)) {
      output.add(event)
      if (event.type === 'stdout' || event.type === 'stderr') onOutput(event.data)
    }
  } catch (error) {
    if (signal.aborted || !stop.signal.aborted) throw error
  } finally {
    clearTimeout(timer)
  }
}
