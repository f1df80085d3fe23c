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
  /** How long ago the last one happened. */
  readonly ageMs: number
}

type Collected = Omit<Denial, 'count' | 'ageMs'> & { count: number; last: number }

/** Groups denials into few events, so that a sandbox that retries in a loop does not flood the listeners. */
export class DenialCollector {
  readonly #emit: (denial: Denial) => void
  readonly #windowMs: number
  readonly #collected = new Map<string, Map<string, Collected>>()
  #timer: NodeJS.Timeout | undefined

  constructor(emit: (denial: Denial) => void, windowMs = DENIAL_WINDOW_MS) {
    this.#emit = emit
    this.#windowMs = windowMs
  }

  add(denial: Omit<Denial, 'count' | 'ageMs'>): void {
    const { sandboxId, protocol, name, address, port, reason } = denial
    const ofSandbox: Map<string, Collected> = this.#collected.get(sandboxId) ?? new Map()
    const last = performance.now()
    this.#collected.set(sandboxId, ofSandbox)
    // By name where there is one: to people, a name with ten addresses is one denial.
    const key = [protocol, name ?? address, port, reason].join(' ')
    const known = ofSandbox.get(key) ?? (ofSandbox.size < DENIAL_EVENTS_MAX ? undefined : ofSandbox.get(''))
    if (known !== undefined) Object.assign(known, { count: known.count + 1, last })
    else if (ofSandbox.size < DENIAL_EVENTS_MAX) ofSandbox.set(key, { ...denial, count: 1, last })
    else ofSandbox.set('', { sandboxId, protocol, reason: 'more of different kinds', count: 1, last })
    this.#timer ??= setTimeout(() => this.flush(), this.#windowMs)
  }

  flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const collected = [...this.#collected.values()]
    this.#collected.clear()
    const now = performance.now()
    for (const ofSandbox of collected)
      for (const { last, ...denial } of ofSandbox.values()) this.#emit({ ...denial, ageMs: now - last })
  }
}
