import type { ScrubAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import type { Abortable } from './options.ts'

export type ScrubStatus = ScrubAnswer

/**
 * The check of all that a server stores, which runs in the background. Damaged snapshots are not restored from. Needs a key with
 * the scope `admin`.
 */
export class Scrub {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** How far it has come, and what it found. */
  status({ signal }: Abortable = {}): Promise<ScrubStatus> {
    return this.#http.json({ path: '/v1/scrub', signal })
  }

  /** Begins a pass, unless one is under way. Returns at once. */
  start({ signal }: Abortable = {}): Promise<ScrubStatus> {
    return this.#http.json({ method: 'POST', path: '/v1/scrub', json: {}, repeatable: true, signal })
  }
}
