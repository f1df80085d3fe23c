import type { App } from './route.ts'

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
/** What pages may read of an answer besides its body; the SDK needs all of them. */
const EXPOSED = 'x-request-id, x-run-id, retry-after, etag, content-range, accept-ranges, mcp-session-id'
/** How long a browser remembers what it was told; none takes more than a day, Chromium two hours. */
const REMEMBER_SECONDS = 7200

/**
 * Lets pages of these origins call the API. Nothing goes along by itself: who calls names a key, in a header that only the page can know,
 * so cookies (`credentials`) are never allowed. A preflight is answered here, before keys are asked for: it has none. Other origins, and
 * who is no browser, are answered as if there were no such thing.
 */
export function allowOrigins(app: App, origins: readonly string[]): void {
  if (origins.length === 0) return
  const allowed = new Set(origins)
  app.addHook('onRequest', (request, reply, done) => {
    const { origin, ...headers } = request.headers
    // Also where there is none: a cache between must not give the answer for one origin to another.
    reply.header('vary', 'origin')
    if (origin === undefined || !allowed.has(origin)) return done()
    reply.header('access-control-allow-origin', origin)
    if (request.method !== 'OPTIONS' || headers['access-control-request-method'] === undefined) {
      reply.header('access-control-expose-headers', EXPOSED)
      return done()
    }
    const wanted = headers['access-control-request-headers']
    if (wanted !== undefined) reply.header('access-control-allow-headers', wanted)
    reply
      .header('access-control-allow-methods', METHODS)
      .header('access-control-max-age', REMEMBER_SECONDS)
      .code(204)
      .send()
  })
}
