import { DormouseError } from '@dormouse/contracts'

/**
 * Beside the run's own time: the agent waits 5 s for code that ignores its interrupt before it ends the kernel, and what it says of that
 * has to get here from a busy host.
 */
const GRACE_MS = 10_000

/**
 * How long the caller who asked for a run with a time-out is kept waiting. Counted here and by this server's clock: the agent's clock stands
 * still while the sandbox sleeps, and an agent that hangs ends nothing.
 */
export class RunDeadline implements Disposable {
  readonly #timeoutMs: number
  #timer: NodeJS.Timeout | undefined
  #tell: (() => void) | undefined
  hasPassed = false

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** The run has begun, or nothing is known that keeps it from beginning. Again changes nothing. */
  begin(): void {
    this.#timer ??= setTimeout(() => {
      this.hasPassed = true
      this.#tell?.()
    }, this.#timeoutMs + GRACE_MS).unref()
  }

  /** Settles when `news` does, or the time is over. Not `Promise.race`: what that ties to a promise stays as long as the promise does. */
  settledOrPassed(news: Promise<void>): Promise<void> {
    if (this.hasPassed) return Promise.resolve()
    return new Promise((resolve) => {
      this.#tell = resolve
      news.then(resolve, resolve)
    })
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer)
  }
}

export interface UnfinishedRun {
  readonly runId: string
  readonly state: string
  readonly sandboxState: string
}

export function unfinished(run: UnfinishedRun): DormouseError {
  return new DormouseError(
    'run_unfinished',
    `The run has not ended in its time: it is ${run.state}, and its sandbox is ${run.sandboxState}.`,
    { details: { ...run } },
  )
}
