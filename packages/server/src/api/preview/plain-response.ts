import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { KEEP_ALIVE_TIMEOUT_MS } from '../limits.ts'
import { headerLines } from './forwarded-headers.ts'
import type { PlainRequest } from './plain-request.ts'
import type { PreviewResponse } from './preview-message.ts'

/** No control characters besides tabs and the ends of lines, which no value has. */
const HEAD_TEXT = /^[\t\r\n\x20-\x7e\x80-\xff]*$/
const KEPT = `connection: keep-alive\r\nkeep-alive: timeout=${Math.floor(KEEP_ALIVE_TIMEOUT_MS / 1000)}\r\n`
const CLOSED = 'connection: close\r\n'
const CRLF = '\r\n'

let date = ''

/** The `Date` of now. Computed once per second, because that takes as long as the rest of a head. */
function dateNow(): string {
  if (date === '') {
    date = new Date().toUTCString()
    setTimeout(
      () => {
        date = ''
      },
      1000 - (Date.now() % 1000),
    ).unref()
  }
  return date
}

/**
 * The response to a plain request, written to the socket without Node's HTTP objects. A body without a length is sent
 * in chunks.
 */
export class PlainResponse implements PreviewResponse {
  statusCode = 0
  readonly #socket: Socket
  /** Not for `HEAD`, and not with a status that has none: then what is written of one is left out. */
  #hasBody: boolean
  readonly #isLast: boolean
  readonly #onOver: () => void
  #extra = ''
  /** What is written with the first piece of the body. */
  #head: string | undefined
  #isChunked = false
  #isOver = false

  /** `onOver` is called once: when the response is complete, or the connection is not usable any more. */
  constructor(socket: Socket, { request, onOver }: { request: PlainRequest; onOver: () => void }) {
    this.#socket = socket
    this.#hasBody = request.method !== 'HEAD'
    this.#isLast = request.isLast
    this.#onOver = onOver
  }

  get headersSent(): boolean {
    return this.statusCode !== 0
  }

  get destroyed(): boolean {
    return this.#socket.destroyed
  }

  get writableLength(): number {
    return this.#socket.writableLength
  }

  setHeader(name: string, value: string | number): void {
    this.#extra += `${name}: ${value}\r\n`
  }

  writeHead(status: number, message: string, headers: string[]): this
  writeHead(status: number, headers: Record<string, string | number>): this
  writeHead(status: number, ...rest: [string, string[]] | [Record<string, string | number>]): this {
    const [message, headers] =
      typeof rest[0] === 'string'
        ? [rest[0], rest[1] as string[]]
        : [STATUS_CODES[status] ?? '', Object.entries(rest[0]).flat().map(String)]
    let text = `HTTP/1.1 ${status} ${message}\r\n${headerLines(headers)}${this.#extra}`
    if (!HEAD_TEXT.test(text)) throw new TypeError('a header has a control character')
    if (status === 204 || status === 304) this.#hasBody = false
    const names = namesIn(headers)
    this.#isChunked = this.#hasBody && !names.hasLength
    if (this.#isChunked) text += 'transfer-encoding: chunked\r\n'
    if (!names.hasDate) text += `date: ${dateNow()}\r\n`
    this.#head = `${text}${this.#isLast ? CLOSED : KEPT}\r\n`
    this.statusCode = status
    return this
  }

  flushHeaders(): void {
    if (this.#head !== undefined) this.#socket.write(this.#takeHead(), 'latin1')
  }

  write(piece: Buffer): boolean {
    if (!this.#hasBody) return true
    const before = this.#takeHead() + (this.#isChunked ? sizeLine(piece) : '')
    if (before === '') return this.#socket.write(piece)
    this.#socket.cork()
    this.#socket.write(before, 'latin1')
    const isFree = this.#socket.write(piece)
    if (this.#isChunked) this.#socket.write(CRLF, 'latin1')
    this.#socket.uncork()
    return isFree
  }

  end(text: string, encoding?: BufferEncoding): void
  end(piece?: Buffer): void
  end(last?: Buffer | string, encoding: BufferEncoding = 'utf8'): void {
    const given = this.#hasBody ? last : undefined
    const piece = typeof given === 'string' && encoding !== 'latin1' ? Buffer.from(given, encoding) : given
    const head = this.#takeHead()
    const isEmpty = piece === undefined || piece.length === 0
    const start = head + (this.#isChunked && !isEmpty ? sizeLine(piece) : '')
    const close = this.#isChunked ? (isEmpty ? '0\r\n\r\n' : '\r\n0\r\n\r\n') : ''
    if (isEmpty || typeof piece === 'string') {
      const text = start + (piece ?? '') + close
      if (text !== '') this.#socket.write(text, 'latin1')
    } else {
      this.#socket.cork()
      if (start !== '') this.#socket.write(start, 'latin1')
      this.#socket.write(piece)
      if (close !== '') this.#socket.write(close, 'latin1')
      this.#socket.uncork()
    }
    if (this.#isLast) this.#socket.end()
    this.over()
  }

  /** The client must not take what it has for the whole response. */
  destroy(): void {
    this.#socket.destroy()
  }

  once(event: 'drain', listener: () => void): void {
    this.#socket.once(event, listener)
  }

  /** May be called again. */
  over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onOver()
  }

  #takeHead(): string {
    const head = this.#head ?? ''
    this.#head = undefined
    return head
  }
}

function sizeLine({ length }: { readonly length: number }): string {
  return `${length.toString(16)}\r\n`
}

function namesIn(headers: readonly string[]): { hasLength: boolean; hasDate: boolean } {
  const found = { hasLength: false, hasDate: false }
  for (let at = 0; at + 1 < headers.length; at += 2) {
    if (headers[at] === 'content-length') found.hasLength = true
    else if (headers[at] === 'date') found.hasDate = true
  }
  return found
}
