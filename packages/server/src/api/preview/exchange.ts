import { onAbort } from '@dormouse/async'
import type { AuthorizedPreview } from './authorize-preview.ts'
import { Departure } from './departure.ts'
import { setWallClockTimer } from './wall-clock-timer.ts'

/** One request of a preview and its response, or the connection that it became. */
export class Exchange {
  readonly requestId: string
  readonly beganMs = performance.now()
  readonly departure: Departure
  #authorized: AuthorizedPreview | undefined
  #revocation: Disposable | undefined
  #clearExpiry: (() => void) | undefined

  /** `disconnect` is called when the client may not stay, and when it has gone. */
  constructor(requestId: string, disconnect: () => void) {
    this.requestId = requestId
    this.departure = new Departure(disconnect)
  }

  get authorized(): AuthorizedPreview | undefined {
    return this.#authorized
  }

  /** The client may stay until its key is revoked or its link expires. */
  admit(authorized: AuthorizedPreview): void {
    this.#authorized = authorized
    // Its client may have gone while a replica was started.
    if (this.departure.hasGone) authorized.release?.()
    this.#revocation = onAbort(authorized.revoked, this.departure.leave)
    if (authorized.expiresAtMs !== undefined)
      this.#clearExpiry = setWallClockTimer(authorized.expiresAtMs, this.departure.leave)
  }

  /** `isComplete`: the client got the whole response. */
  end(isComplete: boolean): void {
    this.#revocation?.[Symbol.dispose]()
    this.#clearExpiry?.()
    this.#authorized?.release?.()
    if (!isComplete) this.departure.leave()
  }
}
