import { ENDED_SESSIONS_MAX } from '../limits.ts'

/** The sessions that ended last. The protocol wants their requests refused. */
export class EndedSessions {
  /** Oldest first. */
  readonly #keys = new Set<string>()

  has(key: string): boolean {
    return this.#keys.has(key)
  }

  add(key: string): void {
    this.#keys.add(key)
    if (this.#keys.size <= ENDED_SESSIONS_MAX) return
    for (const oldest of this.#keys) {
      this.#keys.delete(oldest)
      return
    }
  }
}
