import type { IncomingMessage } from 'node:http'
import { DormouseError } from '@dormouse/contracts'
import { CLIENT_TIMEOUTS } from '../limits.ts'

/** Bodies up to this size are read before they are passed on. */
const SHORT_BYTES = 64 * 1024

/** A request without a body, or with a short one of JSON: the other host would not begin before it has all of it. */
export function isShort({ headers }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined || headers.expect !== undefined) return false
  const bytes = Number(headers['content-length'] ?? 0)
  return (
    bytes === 0 || (bytes <= SHORT_BYTES && headers['content-type']?.startsWith('application/json') === true)
  )
}

/** The body of a short request. Rejects with `request_timeout` or, when its client has gone, with `cancelled`. */
export function readShort(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = []
    const timer = setTimeout(() => {
      reject(new DormouseError('request_timeout', 'the body did not arrive in time'))
    }, CLIENT_TIMEOUTS.jsonBodyMs)
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.once('end', () => {
      clearTimeout(timer)
      resolve(pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces))
    })
    request.once('close', () => {
      clearTimeout(timer)
      reject(new DormouseError('cancelled', 'the caller went away'))
    })
    request.once('error', reject)
  })
}
