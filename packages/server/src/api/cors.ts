import type { App } from './route.ts'

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
/** The headers that pages may read; the SDK needs all of them. */
const EXPOSED = 'x-request-id, x-run-id, retry-after, etag, content-range, accept-ranges, mcp-session-id'
/** How long a browser caches a preflight. None keeps it longer than a day; Chromium keeps it two hours. */
const REMEMBER_SECONDS = 7200

/**
 * Lets pages of these origins call the API. A caller must send a key in a header that only the page knows, so cookies
 * (`credentials`) are never allowed. Preflights have no key and are answered here, before authentication. Requests of
 * other origins and of programs are answered without CORS headers.
 */
export function allowOrigins(app: App, origins: readonly string[]): void {
  if (origins.length === 0) return
  const allowed = new Set(origins)
  app.addHook('onRequest', (request, reply, done) => {
    const { origin, ...headers } = request.headers
    // Sent also without an origin: a cache must not serve the answer for one origin to another.
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
