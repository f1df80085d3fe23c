import { PROGRESS_INTERVAL_MS, PROGRESS_MESSAGE_MAX_CHARACTERS, PROGRESS_MIN_GAP_MS } from './limits.ts'

export type SendProgress = (progress: { progress: number; message: string }) => Promise<void>

/** Sends progress of a call, with its last line of output, to a client that asked for it. */
export class Progress implements Disposable {
  readonly #send: SendProgress | undefined
  readonly #began = performance.now()
  readonly #interval: ReturnType<typeof setInterval> | undefined
  #lastSentMs = 0
  #line = ''
  #nextSend: ReturnType<typeof setTimeout> | undefined

  /** Without `send` it does nothing. */
  constructor(send: SendProgress | undefined) {
    this.#send = send
    if (send !== undefined) this.#interval = setInterval(() => this.#sendNow(), PROGRESS_INTERVAL_MS)
  }

  /** Takes output as it comes, and shows its last line. */
  readonly show = (output: string): void => {
    if (this.#send === undefined) return
    const line = output.trimEnd().split('\n').at(-1)?.trim() ?? ''
    if (line !== '') this.#line = line.slice(0, PROGRESS_MESSAGE_MAX_CHARACTERS)
    this.#nextSend ??= setTimeout(
      () => this.#sendNow(),
      Math.max(0, PROGRESS_MIN_GAP_MS - this.#sinceSentMs()),
    )
  };

  [Symbol.dispose](): void {
    clearInterval(this.#interval)
    clearTimeout(this.#nextSend)
  }

  #sendNow(): void {
    clearTimeout(this.#nextSend)
    this.#nextSend = undefined
    this.#lastSentMs = this.#elapsedMs()
    // Seconds: the protocol wants a number that increases. The total is not known.
    const seconds = Math.round(this.#lastSentMs) / 1000
    const message = this.#line === '' ? `running for ${Math.round(seconds)} s` : this.#line
    // The transport notices a client that has disconnected.
    this.#send?.({ progress: seconds, message }).catch(() => {})
  }

  #sinceSentMs(): number {
    return this.#elapsedMs() - this.#lastSentMs
  }

  #elapsedMs(): number {
    return performance.now() - this.#began
  }
}
