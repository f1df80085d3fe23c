import { CACHE_MAX_ENTRIES, CACHE_NEGATIVE_TTL_MAX_SECONDS, CACHE_TTL_MAX_SECONDS } from '../limits.ts'
import type { DnsRecord } from './packet.ts'

/** The answer of a name server, before a policy is applied. Policies may change while the answer is cached. */
export interface UpstreamAnswer {
  readonly rcode: number
  readonly records: readonly DnsRecord[]
  readonly ttlSeconds: number
}

/** One per sandbox: the time of an answer must not reveal what other sandboxes have looked up. */
export class AnswerCache {
  readonly #entries = new Map<string, { answer: UpstreamAnswer; expiresMs: number }>()
  readonly #now: () => number

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  find(key: string): UpstreamAnswer | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    const leftSeconds = Math.ceil((entry.expiresMs - this.#now()) / 1000)
    if (leftSeconds > 0) return { ...entry.answer, ttlSeconds: leftSeconds }
    this.#entries.delete(key)
    return undefined
  }

  add(key: string, answer: UpstreamAnswer): void {
    const most = answer.records.length > 0 ? CACHE_TTL_MAX_SECONDS : CACHE_NEGATIVE_TTL_MAX_SECONDS
    const ttlSeconds = Math.min(most, answer.ttlSeconds)
    if (ttlSeconds <= 0) return
    this.#entries.delete(key)
    this.#entries.set(key, { answer, expiresMs: this.#now() + ttlSeconds * 1000 })
    if (this.#entries.size > CACHE_MAX_ENTRIES) this.#entries.delete(this.#entries.keys().next().value ?? '')
  }
}
