import type { Socket } from 'node:net'
import { HELLO_TIMEOUT_MS } from '../limits.ts'
import { looksLikeTls } from './client-hello.ts'
import { type FirstMessage, readFirstMessage } from './first-message.ts'

/** `incomplete`: the client began to name a host and did not finish. */
export type FirstMessageResult = FirstMessage | 'incomplete'

/**
 * Holds the first bytes of a client until they name a host. Bytes never pass unread after a time-out: a client that
 * waits for the server sends none, and any that it sends later are read then.
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

  /** The bytes so far. The client is paused once the first message is decided. */
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

  /** The client ended its half. Less than a line of text is no request, so it names no host. */
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
