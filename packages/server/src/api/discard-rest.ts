import type { Readable } from 'node:stream'
import { DISCARD_MAX_MS } from './limits.ts'

/**
 * Reads the rest of a body before an early answer: a client that is still sending would not see it. Returns false when
 * the client sends for too long.
 */
export async function discardRest(body: Readable): Promise<boolean> {
  if (body.readableEnded || body.destroyed) return body.readableEnded
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, DISCARD_MAX_MS)
    function done() {
      clearTimeout(timer)
      body.off('end', done).off('close', done)
      resolve()
    }
    body.on('end', done).on('close', done).on('error', done)
    body.resume()
  })
  return body.readableEnded
}
