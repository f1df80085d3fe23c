import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { createUnzip } from 'node:zlib'
import { Refusal } from './refusal.ts'

/**
 * Encodings whose decoders need only a few kilobytes. The edge asks servers not to encode, but some send stored gzip
 * files. Brotli and Zstandard decoders use as much memory as the server likes.
 */
const DECODED: ReadonlySet<string> = new Set(['gzip', 'x-gzip', 'deflate'])

/**
 * Decodes a body that the server compressed although it was asked not to. Returns undefined when the body is plain.
 * Throws a Refusal.
 */
export function bodyDecoder({ headers, statusCode }: IncomingMessage, method: string): Transform | undefined {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  const hasBody = method !== 'HEAD' && statusCode !== 204 && statusCode !== 304
  if (encoding === '' || encoding === 'identity' || !hasBody) return undefined
  // Part of a compressed file cannot be decoded.
  if (DECODED.has(encoding) && statusCode !== 206) return createUnzip()
  throw new Refusal(
    'encoded',
    `The server encoded its answer as "${encoding}" although it was asked not to. Secrets in it could not be found.`,
  )
}
