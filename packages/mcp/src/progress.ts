import { PROGRESS_BEAT_MS, PROGRESS_MESSAGE_MAX_CHARACTERS, PROGRESS_PAUSE_MS } from './limits.ts'

export type SendProgress = (progress: { progress: number; message: string }) => Promise<void>

/** Tells a client that asked for it that a call is still at work, and what it said last. */
export class Progress implements Disposable {
  readonly #send: SendProgress | undefined
  readonly #began = performance.now()
  readonly #beat: ReturnType<typeof setInterval> | undefined
  #lastSentMs = 0
  #line = ''
  #waiting: ReturnType<typeof setTimeout> | undefined

  /** Without `send` nobody listens. */
  constructor(send: SendProgress | undefined) {
    this.#send = send
    if (send !== undefined) this.#beat = setInterval(() => this.#tell(), PROGRESS_BEAT_MS)
  }

  /** Output as it comes; its last line is shown. */
  readonly say = (output: string): void => {
    if (this.#send === undefined) return
    const line = output.trimEnd().split('\n').at(-1)?.trim() ?? ''
    if (line !== '') this.#line = line.slice(0, PROGRESS_MESSAGE_MAX_CHARACTERS)
    this.#waiting ??= setTimeout(() => this.#tell(), Math.max(0, PROGRESS_PAUSE_MS - this.#sinceSentMs()))
  };

  [Symbol.dispose](): void {
    clearInterval(this.#beat)
    clearTimeout(this.#waiting)
  }

  #tell(): void {
    clearTimeout(this.#waiting)
    this.#waiting = undefined
    this.#lastSentMs = this.#elapsedMs()
    // Seconds, which always rise, as the protocol wants it; how many there will be is not known.
    const seconds = Math.round(this.#lastSentMs) / 1000
    const message = this.#line === '' ? `at work for ${Math.round(seconds)} s` : this.#line
    // A client that has gone is noticed elsewhere.
    this.#send?.({ progress: seconds, message }).catch(() => {})
  }

  #sinceSentMs(): number {
    return this.#elapsedMs() - this.#lastSentMs
  }

  #elapsedMs(): number {
    return performance.now() - this.#began
  }
}
