import { isIPv6 } from 'node:net'
import {
  FAILURES_BURST,
  FAILURES_PER_SECOND,
  SOURCES_MAX,
  UNAUTHENTICATED_MAX,
  UNAUTHENTICATED_PER_SOURCE_MAX,
} from './limits.ts'

interface Source {
  pending: number
  /** Decreases with time. */
  failures: number
  countedAt: number
}

export interface LoginAttempt {
  /** The client has authenticated and no longer counts. */
  succeed(): void
  /** The connection has ended. Counts as a failure unless it succeeded before. */
  end(): void
}

/** Limits clients that have not authenticated. */
export class LoginLimiter {
  readonly #sources = new Map<string, Source>()
  readonly #now: () => number
  #pending = 0

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Returns undefined when too many logins are pending, or too many failed from that network. */
  start(address: string): LoginAttempt | undefined {
    const source = this.#source(networkOf(address))
    if (this.#pending >= UNAUTHENTICATED_MAX || source.pending >= UNAUTHENTICATED_PER_SOURCE_MAX)
      return undefined
    if (source.failures > FAILURES_BURST - 1) return undefined
    this.#pending += 1
    source.pending += 1
    let isPending = true
    const finish = (failures: number) => {
      if (!isPending) return
      isPending = false
      this.#pending -= 1
      source.pending -= 1
      source.failures += failures
    }
    return { succeed: () => finish(0), end: () => finish(1) }
  }

  #source(place: string): Source {
    const now = this.#now()
    const known = this.#sources.get(place)
    if (known !== undefined) {
      const seconds = (now - known.countedAt) / 1000
      known.failures = Math.max(0, known.failures - seconds * FAILURES_PER_SECOND)
      known.countedAt = now
      return known
    }
    if (this.#sources.size >= SOURCES_MAX) this.#forgetOne()
    const fresh = { pending: 0, failures: 0, countedAt: now }
    this.#sources.set(place, fresh)
    return fresh
  }

  #forgetOne(): void {
    for (const [place, { pending }] of this.#sources) {
      if (pending > 0) continue
      this.#sources.delete(place)
      return
    }
  }
}

/** Groups IPv6 addresses by /64: one client usually has 2^64 of them. */
function networkOf(address: string): string {
  const mapped = /^::ffff:(?<v4>[\d.]+)$/i.exec(address)?.groups?.['v4']
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const front = head.split(':').filter((part) => part !== '')
  const missing =
    tail === undefined ? 0 : 8 - front.length - tail.split(':').filter((part) => part !== '').length
  return [...front, ...Array<string>(missing).fill('0')].slice(0, 4).join(':')
}
