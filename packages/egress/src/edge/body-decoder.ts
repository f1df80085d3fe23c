import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { createUnzip } from 'node:zlib'
import { Refusal } from './refusal.ts'

/**
 * Those that take a few kilobytes for each answer, and that servers have stored. Servers are asked for none; a decoder of Brotli or
 * Zstandard would take as much memory as the server likes.
 */
const DECODED: ReadonlySet<string> = new Set(['gzip', 'x-gzip', 'deflate'])

/** Makes a body readable that a server has compressed although it was asked not to. Undefined: it is readable. Throws a Refusal. */
export function bodyDecoder({ headers, statusCode }: IncomingMessage, method: string): Transform | undefined {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  const hasBody = method !== 'HEAD' && statusCode !== 204 && statusCode !== 304
  if (encoding === '' || encoding === 'identity' || !hasBody) return undefined
  // A part of something compressed cannot be read.
  if (DECODED.has(encoding) && statusCode !== 206) return createUnzip()
  throw new Refusal(
    'encoded',
    `The server sends its answer as "${encoding}", in which a secret could not be found. It was asked for an answer that is not encoded.`,
  )
}
