import { DENIAL_EVENTS_MAX, DENIAL_WINDOW_MS } from '../limits.ts'

/** A denial, and how often it happened within a few seconds. */
export interface Denial {
  readonly sandboxId: string
  readonly protocol: 'tcp' | 'dns'
  readonly name?: string
  readonly address?: string
  readonly port?: number
  readonly reason: string
  readonly count: number
}

/** Groups denials into few events, so that a sandbox that retries in a loop does not flood the listeners. */
export class DenialCollector {
  readonly #emit: (denial: Denial) => void
  readonly #windowMs: number
  readonly #collected = new Map<string, Map<string, Omit<Denial, 'count'> & { count: number }>>()
  #timer: NodeJS.Timeout | undefined

  constructor(emit: (denial: Denial) => void, windowMs = DENIAL_WINDOW_MS) {
    this.#emit = emit
    this.#windowMs = windowMs
  }

  add(denial: Omit<Denial, 'count'>): void {
    const { sandboxId, protocol, name, address, port, reason } = denial
    const ofSandbox = this.#collected.get(sandboxId) ?? new Map()
    this.#collected.set(sandboxId, ofSandbox)
    // By name where there is one: to people, a name with ten addresses is one denial.
    const key = [protocol, name ?? address, port, reason].join(' ')
    const known = ofSandbox.get(key) ?? (ofSandbox.size < DENIAL_EVENTS_MAX ? undefined : ofSandbox.get(''))
    if (known !== undefined) known.count++
    else if (ofSandbox.size < DENIAL_EVENTS_MAX) ofSandbox.set(key, { ...denial, count: 1 })
    else ofSandbox.set('', { sandboxId, protocol, reason: 'more of different kinds', count: 1 })
    this.#timer ??= setTimeout(() => this.flush(), this.#windowMs)
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const collected = [...this.#collected.values()]
    this.#collected.clear()
    for (const ofSandbox of collected) for (const denial of ofSandbox.values()) this.#emit(denial)
  }
}
