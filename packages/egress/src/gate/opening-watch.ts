import type { Socket } from 'node:net'
import { HELLO_TIMEOUT_MS } from '../limits.ts'
import { looksLikeTls } from './client-hello.ts'
import { type Opening, readOpening } from './opening.ts'

/** `cut off`: it began to name somebody and did not come to the end of it. */
export type WatchedOpening = Opening | 'cut off'

/**
 * Holds what a client says first until it is clear whom it asks for. There is no time after which bytes pass unread: a client that waits
 * for the server to speak first holds nothing, and one that only seems to is read when it begins.
 */
export class OpeningWatch {
  readonly #client: Socket
  readonly #onlyTls: boolean
  readonly #onDecided: (opening: WatchedOpening) => void
  readonly #held: Buffer[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(client: Socket, options: { onlyTls: boolean; onDecided: (opening: WatchedOpening) => void }) {
    this.#client = client
    this.#onlyTls = options.onlyTls
    this.#onDecided = options.onDecided
    client.on('data', this.#take)
    client.on('end', this.#end)
    client.resume()
  }

  /** What has been said so far. The client is paused once the opening is decided. */
  get held(): Buffer {
    return Buffer.concat(this.#held)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#client.removeListener('data', this.#take)
    this.#client.removeListener('end', this.#end)
  }

  readonly #take = (chunk: Buffer): void => {
    this.#held.push(chunk)
    this.#timer ??= setTimeout(this.#cutOff, HELLO_TIMEOUT_MS)
    const held = this.held
    const opening = this.#onlyTls && !looksLikeTls(held) ? ({ kind: 'other' } as const) : readOpening(held)
    if (opening !== undefined) this.#decide(opening)
  }

  readonly #cutOff = (): void => this.#decide('cut off')

  /** There will be no more of it. Less than a line of text is no request, so it asks for nobody. */
  readonly #end = (): void => {
    const held = this.held
    const isRequest = looksLikeTls(held) || held.includes('\n')
    this.#decide(isRequest ? 'cut off' : { kind: 'other' })
  }

  #decide(opening: WatchedOpening): void {
    this.stop()
    this.#client.pause()
    this.#onDecided(opening)
  }
}
