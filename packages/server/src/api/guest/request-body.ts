import type { Readable } from 'node:stream'
import { withTimeout } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { FastifyReply } from 'fastify'
import { discardRest } from '../discard-rest.ts'
import { SENDER_STALL_MS } from '../limits.ts'
import type { App } from '../route.ts'

/** Lets the routes of this scope take bodies of any type as streams. */
export function useRawBodies(app: App): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload))
}

/**
 * Yields the body's bytes on demand. Throws `cancelled` when the sender disconnects and `request_timeout` when it
 * pauses too long.
 */
export async function* bodyPieces(body: unknown): AsyncGenerator<Buffer> {
  if (body === undefined || body === null) return
  // Stopping early must not close the connection: the answer is still to be sent.
  const pieces = (body as Readable).iterator({ destroyOnReturn: false })
  for (;;) {
    const next = await withTimeout(
      pieces.next().catch((cause: unknown) => {
        throw new DormouseError('cancelled', 'the caller went away before the body was complete', { cause })
      }),
      SENDER_STALL_MS,
      () => new DormouseError('request_timeout', 'the body paused for too long'),
    )
    if (next.done === true) return
    yield next.value as Buffer
  }
}

/** Call before answering a request whose body was not read to its end. */
export async function discardBody(body: unknown, reply: FastifyReply): Promise<void> {
  const isWhole = body === undefined || body === null || (await discardRest(body as Readable))
  if (!isWhole) reply.header('connection', 'close')
}
