import { DormouseError } from '@dormouse/contracts'

/**
 * Added to the run's own time-out: the agent waits 5 s for code that ignores its interrupt before it ends the kernel,
 * and its report needs some time on a busy host.
 */
const GRACE_MS = 10_000

/**
 * How long the caller of a run with a time-out waits. Counted by the server's clock: the agent's clock stops while
 * the sandbox sleeps, and an agent that hangs ends nothing.
 */
export class RunDeadline implements Disposable {
  readonly #timeoutMs: number
  #timer: NodeJS.Timeout | undefined
  #tell: (() => void) | undefined
  hasPassed = false

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Starts the time: the run has begun, or nothing is known to delay it. Repeating this does nothing. */
  begin(): void {
    this.#timer ??= setTimeout(() => {
      this.hasPassed = true
      this.#tell?.()
    }, this.#timeoutMs + GRACE_MS).unref()
  }

  /**
   * Resolves when `change` settles or the deadline passes. `Promise.race` would leave handlers attached to `change`.
   */
  settledOrPassed(change: Promise<void>): Promise<void> {
    if (this.hasPassed) return Promise.resolve()
    return new Promise((resolve) => {
      this.#tell = resolve
      change.then(resolve, resolve)
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
    `The run did not end in its time: it is ${run.state}, and its sandbox is ${run.sandboxState}.`,
    { details: { ...run } },
  )
}
