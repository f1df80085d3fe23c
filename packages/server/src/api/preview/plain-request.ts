import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { HEADERS_MAX_BYTES } from '../limits.ts'
import type { PreviewRequest } from './preview-message.ts'

const HEAD_END = '\r\n\r\n'
/** Only methods whose requests have no body, and targets that need no decoding. */
const REQUEST_LINE = /^(GET|HEAD|OPTIONS) (\/[!-~]*) HTTP\/1\.1$/
const HEADER_LINE = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/
/** These change the framing or the life of the connection. `connection` is checked by its value. */
const NOT_PLAIN = new Set(['content-length', 'transfer-encoding', 'upgrade', 'expect', 'te', 'trailer'])

/**
 * A request without a body whose head came in one piece, with nothing behind it. Such a request cannot be read in two
 * ways: it ends where the bytes end.
 */
export interface PlainRequest extends PreviewRequest {
  readonly method: 'GET' | 'HEAD' | 'OPTIONS'
  readonly url: string
  readonly rawHeaders: readonly string[]
  /** The client wants the connection closed after the response. */
  readonly isLast: boolean
}

/**
 * Returns undefined for everything that is unusual: Node's parser decides about it. A header that occurs twice is
 * unusual too, so no two readers can disagree about which one counts.
 */
export function parsePlainRequest(data: Buffer, socket: Socket): PlainRequest | undefined {
  if (data.length > HEADERS_MAX_BYTES || data.indexOf(HEAD_END) !== data.length - HEAD_END.length)
    return undefined
  const [first = '', ...lines] = data.toString('latin1', 0, data.length - HEAD_END.length).split('\r\n')
  const [, method, url] = REQUEST_LINE.exec(first) ?? []
  if (method === undefined || url === undefined) return undefined
  const rawHeaders: string[] = []
  const headers: IncomingHttpHeaders = Object.create(null)
  for (const line of lines) {
    const [, given, padded] = HEADER_LINE.exec(line) ?? []
    if (given === undefined || padded === undefined) return undefined
    const name = given.toLowerCase()
    const value = withoutEnd(padded)
    if (headers[name] !== undefined || !isPlain(name, value)) return undefined
    headers[name] = value
    rawHeaders.push(name, value)
  }
  if (!headers.host) return undefined
  const isLast = headers.connection?.toLowerCase() === 'close'
  const read = { method: method as PlainRequest['method'], url, headers, rawHeaders, isLast }
  return { ...read, socket: socket as TLSSocket }
}

function isPlain(name: string, value: string): boolean {
  if (name === 'connection') return /^(?:keep-alive|close)$/i.test(value)
  return !NOT_PLAIN.has(name)
}

/** Without blanks at the end. */
function withoutEnd(text: string): string {
  let end = text.length
  while (end > 0 && (text.charCodeAt(end - 1) === 32 || text.charCodeAt(end - 1) === 9)) end -= 1
  return end === text.length ? text : text.slice(0, end)
}
