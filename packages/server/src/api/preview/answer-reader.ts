/** Some frameworks keep sessions in cookies and need more than Node's default. */
export const ANSWER_HEADERS_MAX_BYTES = 64 * 1024
/** A line that begins a chunk: its size, and extensions that few programs send. */
const CHUNK_LINE_MAX_BYTES = 4096

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: (.*))?$/
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const NOT_IN_A_VALUE = /[\0\r\n]/
const CHUNK_LINE = /^(?<size>[0-9a-fA-F]{1,12})[ \t]*(?:;|$)/

export interface AnswerHead {
  readonly status: number
  readonly message: string
  /** Names and values in turns, in Latin-1 like everything in a head. */
  readonly rawHeaders: readonly string[]
}

/** Takes one response. Interim responses are left out. */
export interface AnswerSink {
  onHead(head: AnswerHead): void
  onBody(piece: Buffer): void
  /** The response is complete. `canContinue`: the connection may carry another request. */
  onEnd(canContinue: boolean): void
}

type Step = 'none' | 'head' | 'body' | 'chunkLine' | 'chunk' | 'chunkEnd' | 'trailer' | 'untilClose'

/**
 * Reads HTTP/1.1 responses from a connection, one for each `expect`. It is strict about framing: what it does not
 * understand ends the connection. A mistake here cannot cross sandboxes, because a connection belongs to one port.
 */
export class AnswerReader {
  #step: Step = 'none'
  #sink: AnswerSink | undefined
  #mayHaveBody = true
  #canContinue = true
  /** Bytes that are left of the body or of the chunk. */
  #left = 0
  #trailerBytes = 0
  /** The beginning of a head or line whose end has not come yet. */
  #begun: Buffer | undefined

  /** `hasBody` is false for `HEAD`, whose response only describes one. */
  expect(sink: AnswerSink, { hasBody }: { hasBody: boolean }): void {
    this.#sink = sink
    this.#mayHaveBody = hasBody
    this.#step = 'head'
  }

  /** Throws on bytes that are no response, or that no request asked for. */
  take(data: Buffer): void {
    let rest = this.#begun === undefined ? data : Buffer.concat([this.#begun, data])
    this.#begun = undefined
    while (rest.length > 0) {
      const taken = this.#take(rest)
      if (taken === 0) {
        this.#begun = rest
        return
      }
      rest = rest.subarray(taken)
    }
  }

  /** The connection has ended. Throws when the response is not complete. */
  end(): void {
    if (this.#step !== 'untilClose') throw new Error('the connection ended within a response')
    this.#complete()
  }

  /** Returns how many bytes it took; 0 when it needs more. */
  #take(data: Buffer): number {
    switch (this.#step) {
      case 'head':
        return this.#takeHead(data)
      case 'body':
      case 'chunk':
        return this.#takeCounted(data)
      case 'chunkLine':
        return this.#takeChunkLine(data)
      case 'chunkEnd':
        return this.#takeChunkEnd(data)
      case 'trailer':
        return this.#takeTrailer(data)
      case 'untilClose':
        this.#sink?.onBody(data)
        return data.length
      case 'none':
        throw new Error('no request asked for this response')
    }
  }

  #takeHead(data: Buffer): number {
    const end = data.indexOf('\r\n\r\n')
    if (end > ANSWER_HEADERS_MAX_BYTES || (end === -1 && data.length > ANSWER_HEADERS_MAX_BYTES))
      throw new Error('the head of the response is too large')
    if (end === -1) return 0
    const { head, framing } = parseHead(data.toString('latin1', 0, end))
    if (head.status === 101) throw new Error('the program changed to a protocol that no request asked for')
    if (head.status < 200) return end + 4
    this.#canContinue = framing.isKept
    this.#sink?.onHead(head)
    const isEmpty = !this.#mayHaveBody || head.status === 204 || head.status === 304
    if (isEmpty || framing.length === 0) this.#complete()
    else if (framing.isChunked) this.#step = 'chunkLine'
    else if (framing.length === undefined) this.#step = 'untilClose'
    else {
      this.#step = 'body'
      this.#left = framing.length
    }
    return end + 4
  }

  #takeCounted(data: Buffer): number {
    const bytes = Math.min(this.#left, data.length)
    this.#left -= bytes
    this.#sink?.onBody(bytes === data.length ? data : data.subarray(0, bytes))
    if (this.#left === 0 && this.#step === 'body') this.#complete()
    else if (this.#left === 0) this.#step = 'chunkEnd'
    return bytes
  }

  #takeChunkLine(data: Buffer): number {
    const line = lineOf(data, CHUNK_LINE_MAX_BYTES)
    if (line === undefined) return 0
    const size = CHUNK_LINE.exec(line)?.groups?.size
    if (size === undefined) throw new Error('the size of a chunk is not a number')
    this.#left = Number.parseInt(size, 16)
    this.#step = this.#left === 0 ? 'trailer' : 'chunk'
    this.#trailerBytes = 0
    return line.length + 2
  }

  #takeChunkEnd(data: Buffer): number {
    if (data.length < 2) return 0
    if (data[0] !== 13 || data[1] !== 10) throw new Error('a chunk is longer than its size')
    this.#step = 'chunkLine'
    return 2
  }

  /** Trailers are read and dropped. */
  #takeTrailer(data: Buffer): number {
    const line = lineOf(data, ANSWER_HEADERS_MAX_BYTES)
    if (line === undefined) return 0
    this.#trailerBytes += line.length
    if (this.#trailerBytes > ANSWER_HEADERS_MAX_BYTES) throw new Error('the trailer is too large')
    if (line === '') this.#complete()
    return line.length + 2
  }

  #complete(): void {
    const sink = this.#sink
    const canContinue = this.#canContinue && this.#step !== 'untilClose'
    this.#step = 'none'
    this.#sink = undefined
    sink?.onEnd(canContinue)
  }
}

interface Framing {
  readonly isChunked: boolean
  /** Undefined: the body is chunked, or lasts until the connection ends. */
  readonly length: number | undefined
  readonly isKept: boolean
}

function parseHead(text: string): { head: AnswerHead; framing: Framing } {
  const [first = '', ...lines] = text.split('\r\n')
  const [, minor, status, message = ''] = STATUS_LINE.exec(first) ?? []
  if (status === undefined) throw new Error('the response has no status line')
  const rawHeaders: string[] = []
  const framing = { isChunked: false, length: undefined as number | undefined, isKept: minor === '1' }
  for (const line of lines) {
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon))
    const value = withoutBlanks(line.slice(colon + 1))
    if (!HEADER_NAME.test(name) || NOT_IN_A_VALUE.test(value))
      throw new Error('a header of the response is malformed')
    rawHeaders.push(name, value)
    noteFraming(framing, name.toLowerCase(), value)
  }
  if (framing.isChunked && framing.length !== undefined) throw new Error('the response has two lengths')
  return { head: { status: Number(status), message, rawHeaders }, framing }
}

function noteFraming(
  framing: { isChunked: boolean; length: number | undefined; isKept: boolean },
  name: string,
  value: string,
): void {
  if (name === 'connection') {
    if (/\bclose\b/i.test(value)) framing.isKept = false
    else if (/\bkeep-alive\b/i.test(value)) framing.isKept = true
  } else if (name === 'transfer-encoding') {
    if (value.toLowerCase() !== 'chunked' || framing.isChunked)
      throw new Error('the response has an unknown transfer encoding')
    framing.isChunked = true
  } else if (name === 'content-length') {
    const length = /^\d{1,15}$/.test(value) ? Number(value) : undefined
    if (length === undefined || (framing.length !== undefined && framing.length !== length))
      throw new Error('the length of the response is not a number')
    framing.length = length
  }
}

/** Unlike `trim`, which also removes bytes of UTF-8 that look like a space in Latin-1. */
function withoutBlanks(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && isBlank(text.charCodeAt(start))) start += 1
  while (end > start && isBlank(text.charCodeAt(end - 1))) end -= 1
  return text.slice(start, end)
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9
}

/** The line at the beginning, without its end; undefined when it has none yet. */
function lineOf(data: Buffer, maxBytes: number): string | undefined {
  const end = data.indexOf('\r\n')
  if (end > maxBytes || (end === -1 && data.length > maxBytes)) throw new Error('a line is too long')
  return end === -1 ? undefined : data.toString('latin1', 0, end)
}
