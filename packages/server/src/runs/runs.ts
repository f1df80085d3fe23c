import type { Language, RunEvent, RunId, RunResult, SandboxId } from '@dormouse/contracts'
import type { RunAnswer } from '@dormouse/contracts/http'
import type { RunInput } from '@dormouse/engine'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { Page } from '../store/page.ts'

export interface StartRunRequest {
  readonly code: string
  /** Undefined: the language of the context. */
  readonly language?: Language | undefined
  readonly context?: string | undefined
  readonly timeoutMs?: number | undefined
  readonly idempotencyKey?: string | undefined
  readonly input?: boolean
}

export interface ReadEvents {
  /** Only events with a higher `seq`. */
  readonly after?: number
  /** `false`: stop at the end of the journal instead of waiting for more. */
  readonly follow?: boolean
  readonly signal?: AbortSignal | undefined
}

/** A run, under way or over. A reader that stops reading does not end the run. */
export interface Run {
  readonly runId: RunId
  view(): RunAnswer
  /** Events from the journal, then new ones as they come, until `exit`. Survives standby and restarts of the server. */
  events(options?: ReadEvents): AsyncIterable<RunEvent>
  result(signal?: AbortSignal): Promise<RunResult>
}

/** What the API uses of runs. */
export interface Runs {
  /**
   * An `idempotencyKey` that this sandbox has seen before returns the first run and starts nothing. The same key with
   * another body throws `idempotency_mismatch`.
   */
  start(sandbox: SandboxHandle, request: StartRunRequest): Promise<Run>
  get(sandbox: { readonly id: SandboxId }, runId: string): Run
  list(sandbox: { readonly id: SandboxId }, query: { limit: number; cursor?: string }): Page<RunAnswer>
  /** Answers an `input` event of a run that is under way. Throws `conflict` when the run does not wait for it. */
  input(sandbox: SandboxHandle, runId: string, answer: RunInput): Promise<void>
  interrupt(sandbox: SandboxHandle, runId: string): Promise<'interrupting' | 'cancelled' | 'finished'>
}
