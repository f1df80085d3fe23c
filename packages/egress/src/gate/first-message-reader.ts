import type { Socket } from 'node:net'
import { HELLO_TIMEOUT_MS } from '../limits.ts'
import { looksLikeTls } from './client-hello.ts'
import { type FirstMessage, readFirstMessage } from './first-message.ts'

/** `cut off`: it began to name somebody and did not come to the end of it. */
export type FirstMessageResult = FirstMessage | 'incomplete'

/**
 * Holds what a client says first until it is clear whom it asks for. There is no time after which bytes pass unread: a client that waits
 * for the server to speak first holds nothing, and one that only seems to is read when it begins.
 */
export class FirstMessageReader {
  readonly #client: Socket
  readonly #isTlsOnly: boolean
  readonly #onDecided: (message: FirstMessageResult) => void
  readonly #held: Buffer[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(
    client: Socket,
    options: { isTlsOnly: boolean; onDecided: (message: FirstMessageResult) => void },
  ) {
    this.#client = client
    this.#isTlsOnly = options.isTlsOnly
    this.#onDecided = options.onDecided
    client.on('data', this.#take)
    client.on('end', this.#end)
    client.resume()
  }

  /** What has been said so far. The client is paused once the message is decided. */
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
    const message =
      this.#isTlsOnly && !looksLikeTls(held) ? ({ kind: 'other' } as const) : readFirstMessage(held)
    if (message !== undefined) this.#decide(message)
  }

  readonly #cutOff = (): void => this.#decide('incomplete')

  /** There will be no more of it. Less than a line of text is no request, so it asks for nobody. */
  readonly #end = (): void => {
    const held = this.held
    const isRequest = looksLikeTls(held) || held.includes('\n')
    this.#decide(isRequest ? 'incomplete' : { kind: 'other' })
  }

  #decide(message: FirstMessageResult): void {
    this.stop()
    this.#client.pause()
    this.#onDecided(message)
  }
}
