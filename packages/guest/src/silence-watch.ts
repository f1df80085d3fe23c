import { DormouseError } from '@dormouse/contracts'

/** How often a connection on which somebody waits for an answer is looked at. */
const LOOK_EVERY_MS = 5_000
/** An agent that says nothing for so many looks, a question included, hangs. One on a busy host has twenty seconds of its CPU share. */
const SILENT_LOOKS = 4

export interface SilenceWatchParts {
  /** Whether an answer is waited for. */
  readonly isWaiting: () => boolean
  /** Whether the host itself has stopped the agent. */
  readonly isHeld: () => boolean
  /** Asks the agent something that it answers at once. */
  readonly ask: () => void
  readonly onSilence: () => void
}

/**
 * Tells an agent that takes its time from one that hangs: while an answer is waited for and nothing comes, it is asked whether it is
 * there. Counts looks and not time: a host that stood still itself hears what has come meanwhile before it looks again.
 */
export class SilenceWatch {
  readonly #parts: SilenceWatchParts
  #timer: NodeJS.Timeout | undefined
  #silentLooks = 0

  constructor(parts: SilenceWatchParts) {
    this.#parts = parts
  }

  /** An answer is waited for from now on. */
  begin(): void {
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref()
  }

  heard(): void {
    this.#silentLooks = 0
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#silentLooks = 0
  }

  #look(): void {
    const { isWaiting, isHeld, ask, onSilence } = this.#parts
    if (!isWaiting()) {
      this.stop()
      return
    }
    this.#silentLooks = isHeld() ? 0 : this.#silentLooks + 1
    if (this.#silentLooks >= SILENT_LOOKS) onSilence()
    // The first look may come right after the request.
    else if (this.#silentLooks === 2) ask()
  }
}

/** The agent is there and says nothing: it is stopped, starved, or in hostile hands. It may answer again later. */
export function silent(message: string, cause?: unknown): DormouseError {
  return new DormouseError('agent_unreachable', message, {
    hint: 'The agent inside the sandbox is stopped or has no CPU or memory left. Try again, or put the sandbox back with a rollback.',
    details: { reason: 'silent' },
    cause,
  })
}

export function isSilent(error: unknown): boolean {
  return (
    error instanceof DormouseError &&
    error.code === 'agent_unreachable' &&
    error.details['reason'] === 'silent'
  )
}
