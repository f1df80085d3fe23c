import { DormouseError } from '@dormouse/contracts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App, Routes } from '../route.ts'
import { type PageFile, pageDirectory, readPageFiles } from './page-files.ts'

/** The paths that the page shows something for; it reads them itself. */
const PATHS = [
  ...['/', '/page/sandboxes/:id', '/page/sandboxes/:id/:part', '/page/templates', '/page/templates/:name'],
  ...['/page/volumes', '/page/usage', '/page/keys', '/page/server'],
]
const HASHED = 'public, max-age=31536000, immutable'
const anyQuery = z.record(z.string(), z.unknown())

/** Serves the page. Its paths are below none of the API, nor of that of E2B. */
export function pageRoutes(directory: string = pageDirectory()): Routes {
  const files = readPageFiles(directory)
  return (app, { ports }) => {
    const policy = contentPolicy(ports.domain)
    for (const path of PATHS) {
      route(app, path, (request, reply) => {
        reply.headers({
          'content-security-policy': policy,
          'cache-control': 'no-cache',
          'cross-origin-opener-policy': 'same-origin',
          'x-frame-options': 'DENY',
        })
        return send(request, reply, files.get('index.html'))
      })
    }
    route(app, '/assets/:file', (request, reply) => {
      const { file } = request.params as { file: string }
      if (file === 'index.html') return send(request, reply, undefined)
      reply.header('cache-control', HASHED)
      return send(request, reply, files.get(file))
    })
  }
}

function route(
  app: App,
  path: string,
  serve: (request: FastifyRequest, reply: FastifyReply) => FastifyReply,
): void {
  app.get(
    path,
    { config: { scope: 'open' }, exposeHeadRoute: true, schema: { hide: true, querystring: anyQuery } },
    serve,
  )
}

/**
 * No inline script, no script and no connection to anywhere else. Inline styles are allowed: the editor, the terminal
 * and the charts set them. Frames show previews, which are on origins of their own.
 */
function contentPolicy(domain: string | undefined): string {
  const frames = domain === undefined ? "'self'" : `'self' http://*.${domain}:* https://*.${domain}:*`
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "connect-src 'self'",
    `frame-src ${frames}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}

function send(request: FastifyRequest, reply: FastifyReply, file: PageFile | undefined): FastifyReply {
  if (file === undefined) {
    throw new DormouseError('not_found', 'there is no such file of the page', {
      hint: 'Build it with `./dormouse up`, or `node packages/page/build.mjs`.',
    })
  }
  const accepted = String(request.headers['accept-encoding'] ?? '')
  const [encoding, body] =
    file.brotli !== undefined && /\bbr\b/.test(accepted)
      ? ['br', file.brotli]
      : file.gzip !== undefined && /\bgzip\b/.test(accepted)
        ? ['gzip', file.gzip]
        : [undefined, file.plain]
  if (encoding !== undefined) reply.header('content-encoding', encoding)
  return reply
    .headers({ 'content-type': file.type, 'x-content-type-options': 'nosniff', vary: 'accept-encoding' })
    .header('referrer-policy', 'no-referrer')
    .send(body)
}
