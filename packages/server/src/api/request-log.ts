import { LARGE_ANSWER_BYTES } from './limits.ts'
import type { App } from './route.ts'

/** One line per request. The route's pattern and the path, never the query, a header or a body: those may hold secrets. */
export function logRequests(app: App): void {
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  app.addHook('onSend', (_request, reply, payload, done) => {
    // A large answer waits in memory for its reader; one who takes nothing of it is cut off.
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
