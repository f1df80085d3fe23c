import type { ScrubAnswer } from './contract/index.ts'
import type { Http } from './http/http.ts'
import type { CallOptions } from './options.ts'

export type ScrubStatus = ScrubAnswer

/**
 * Checks everything that the server stores, in the background. The server does not restore damaged snapshots. Needs a
 * key with the scope `admin`.
 */
export class Scrub {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** Its progress and its findings. */
  status({ signal, timeoutMs }: CallOptions = {}): Promise<ScrubStatus> {
    return this.#http.json({ path: '/v1/scrub', signal, timeoutMs })
  }

  /** Starts a pass unless one runs. Does not wait for its end. */
  start({ signal, timeoutMs }: CallOptions = {}): Promise<ScrubStatus> {
    return this.#http.json({
      method: 'POST',
      path: '/v1/scrub',
      json: {},
      repeatable: true,
      signal,
      timeoutMs,
    })
  }
}
