import type { ServerResponse } from 'node:http'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isForTheOperator, toDormouseError } from './error-answer.ts'
import { SSE_KEEP_ALIVE_MS } from './limits.ts'

export const NDJSON = 'application/x-ndjson'
export const SSE = 'text/event-stream'
export type StreamType = typeof NDJSON | typeof SSE

// Shared: creating an error per request would record a stack that is never read.
const GONE = new DormouseError('cancelled', 'the caller went away')

/** Aborted when the caller disconnects or has the whole answer. */
export function disconnected(reply: FastifyReply): AbortSignal {
  const controller = new AbortController()
  if (reply.raw.destroyed) controller.abort(GONE)
  else reply.raw.once('close', () => controller.abort(GONE))
  return controller.signal
}

/**
 * Sends events as fast as the reader takes them. It asks for the next event only when there is room, so a slow reader
 * costs one event and the buffers of its socket. A failure, or a revoked key, ends the stream with a line `{type:
 * "failed", error}`. `events` must end by itself when the caller is `disconnected`.
 */
export async function sendEvents(
  request: FastifyRequest,
  reply: FastifyReply,
  type: StreamType,
  events: AsyncIterable<object>,
): Promise<void> {
  const { raw } = reply
  const format = type === SSE ? sseEvent : ndjsonLine
  const headers = {
    ...reply.getHeaders(),
    'content-type': type,
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  }
  reply.hijack()
  raw.writeHead(200, headers as Record<string, string>)
  raw.flushHeaders()
  const fail = (thrown: unknown) => {
    if (!raw.writable) return
    const error = toDormouseError(thrown)
    if (isForTheOperator(error)) request.log.error({ err: thrown }, 'stream failed')
    raw.end(format({ type: 'failed', ...request.server.errorAnswers.body(error, request.id) }))
  }
  const revocation = onAbort(request.key.revoked, () =>
    fail(new DormouseError('unauthorized', 'the key was revoked')),
  )
  const keepAlive = type === SSE ? setInterval(() => beat(raw), SSE_KEEP_ALIVE_MS) : undefined
  try {
    for await (const event of events) {
      if (!raw.writable) return
      if (!raw.write(format(event))) await drained(raw, request.server.clientTimeouts.readerMs)
    }
  } catch (thrown) {
    fail(thrown)
  } finally {
    clearInterval(keepAlive)
    revocation[Symbol.dispose]()
    if (!raw.writableEnded) raw.end()
  }
}

function ndjsonLine(event: object): string {
  return `${JSON.stringify(event)}\n`
}

/** Without `event:`, so that `onmessage` of a browser's EventSource sees all events. JSON has no line breaks. */
function sseEvent(event: object): string {
  const id = 'seq' in event ? `id: ${event.seq}\n` : ''
  return `${id}data: ${JSON.stringify(event)}\n\n`
}

function beat(raw: ServerResponse): void {
  if (raw.writable && !raw.writableNeedDrain) raw.write(': still here\n\n')
}

/** Waits until there is room again, or the reader is gone. */
export function drained(raw: ServerResponse, stallMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (raw.destroyed) return resolve()
    const timer = setTimeout(() => raw.destroy(), stallMs)
    const done = () => {
      clearTimeout(timer)
      raw.off('drain', done).off('close', done)
      resolve()
    }
    raw.on('drain', done).on('close', done)
  })
}
