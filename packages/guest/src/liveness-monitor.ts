import { DormouseError } from '@dormouse/contracts'

const CHECK_EVERY_MS = 5_000
/** After this many checks without a frame the agent counts as hung: 20 s of its CPU share on a busy host. */
const SILENT_CHECKS_MAX = 4
/** The agent is pinged at this check. The first one may come right after the request. */
const PING_AT_CHECK = 2

export interface LivenessMonitorOptions {
  /** Whether a call waits for an answer. */
  readonly isWaiting: () => boolean
  /** Whether the host itself has stopped the agent. */
  readonly isHeld: () => boolean
  /** Sends a request that a healthy agent answers at once. */
  readonly ping: () => void
  readonly onSilence: () => void
}

/**
 * Tells a slow agent from one that hangs: while a call waits and no frame comes, it pings the agent. Counts checks,
 * not time: a host that was stopped itself reads what has arrived before the next check.
 */
export class LivenessMonitor {
  readonly #options: LivenessMonitorOptions
  #timer: NodeJS.Timeout | undefined
  #silentChecks = 0

  constructor(options: LivenessMonitorOptions) {
    this.#options = options
  }

  /** A call begins to wait for an answer. */
  start(): void {
    this.#timer ??= setInterval(() => this.#check(), CHECK_EVERY_MS).unref()
  }

  /** Bytes of the agent arrived. */
  onData(): void {
    this.#silentChecks = 0
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#silentChecks = 0
  }

  #check(): void {
    const { isWaiting, isHeld, ping, onSilence } = this.#options
    if (!isWaiting()) {
      this.stop()
      return
    }
    this.#silentChecks = isHeld() ? 0 : this.#silentChecks + 1
    if (this.#silentChecks >= SILENT_CHECKS_MAX) onSilence()
    else if (this.#silentChecks === PING_AT_CHECK) ping()
  }
}

/**
 * The agent exists but does not answer: it is stopped, has no CPU, or sandbox code controls it. It may answer later.
 */
export function silent(message: string, cause?: unknown): DormouseError {
  return new DormouseError('agent_unreachable', message, {
    hint: 'The agent inside the sandbox is stopped, or has no CPU or memory left. Try again, or roll the sandbox back.',
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
