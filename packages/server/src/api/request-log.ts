import { LARGE_ANSWER_BYTES } from './limits.ts'
import type { App } from './route.ts'

/**
 * Logs one line per request: the route's pattern and the path, never the query, headers or body, which may hold
 * secrets.
 */
export function logRequests(app: App): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    // A large answer is buffered in memory; a reader that takes nothing is disconnected.
    if (typeof payload === 'string' && payload.length > LARGE_ANSWER_BYTES) {
      reply.raw.setTimeout(app.clientTimeouts.readerMs, () => reply.raw.destroy())
    }
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    request.log.info(
      {
        method: request.method,
        route: request.routeOptions.url,
        path: request.url.split('?', 1)[0],
        status: reply.statusCode,
        durationMs: Math.round(reply.elapsedTime * 100) / 100,
        keyId: request.key?.keyId,
      },
      'request',
    )
    done()
  })
}
