import type { AnswerHead } from './answer-reader.ts'
import type { PreviewResponse } from './preview-message.ts'
import { REASON } from './proxy-request.ts'

/**
 * Bytes of a response that may wait for a slow client before reading pauses. Node counts a piece as waiting until its
 * write has returned, so with a smaller bound every piece of a large response would pause.
 */
const WAITING_MAX_BYTES = 256 * 1024
/** A body of this size is sent in one write with its head. */
const SHORT_BODY_BYTES = 4096

export interface AnswerSource {
  pause(): void
  resume(): void
}

export interface AnswerWriterOptions {
  readonly response: PreviewResponse
  /** Where the response comes from. Pauses while the client does not read. */
  readonly source: AnswerSource
  /** Called once, when the client gets a part of a response that is not complete. */
  readonly onStream?: () => void
}

/** Writes one response to its client as it comes: a short one in one piece with its head, and others as a stream. */
export class AnswerWriter {
  readonly #options: AnswerWriterOptions
  #hasStarted = false
  #isStreaming = false
  /** The first piece of the body: a short response is sent in one piece, with its head. */
  #first: Buffer | undefined

  constructor(options: AnswerWriterOptions) {
    this.#options = options
  }

  get hasStarted(): boolean {
    return this.#hasStarted
  }

  /** `headers`: names and values in turns. */
  begin({ status, message }: Pick<AnswerHead, 'status' | 'message'>, headers: string[]): void {
    this.#options.response.writeHead(status, REASON.test(message) ? message : '', headers)
    this.#hasStarted = true
  }

  write(piece: Buffer): void {
    if (this.#isStreaming || this.#first !== undefined) {
      this.flush()
      this.#send(piece)
    } else this.#first = piece
  }

  /** For events and long polls: without a body by now, the client learns that it is connected. */
  flush(): void {
    if (this.#isStreaming || !this.#hasStarted) return
    this.#isStreaming = true
    this.#options.onStream?.()
    const first = this.#first
    this.#first = undefined
    if (first === undefined) this.#options.response.flushHeaders()
    else this.#send(first)
  }

  end(): void {
    const { response } = this.#options
    const first = this.#first
    this.#first = undefined
    // Node joins a head and a string into one write.
    if (first !== undefined && first.length <= SHORT_BODY_BYTES)
      response.end(first.toString('latin1'), 'latin1')
    else response.end(first)
  }

  /** The response does not come to its end. What the client has of it must not look complete. */
  fail(): void {
    if (this.#hasStarted) this.#options.response.destroy()
  }

  #send(piece: Buffer): void {
    const { response, source } = this.#options
    if (response.write(piece) || response.writableLength <= WAITING_MAX_BYTES) return
    source.pause()
    response.once('drain', () => source.resume())
  }
}
