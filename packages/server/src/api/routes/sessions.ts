import { DormouseError } from '@dormouse/contracts'
import { sessionSchema, signInLinkSchema, signInSchema } from '@dormouse/contracts/http'
import type { FastifyRequest } from 'fastify'
import type { AuthenticatedKey } from '../../access/access.ts'
import { publicOrigin } from '../preview/forwarded-headers.ts'
import { emptyBody, json, nothing, type Routes } from '../route.ts'
import type { Services } from '../services.ts'
import { cookieIn, PAGE_HEADER, setSessionCookie } from '../session-cookie.ts'

const tags = ['sessions']

/** Signing in to the page. */
export const sessionRoutes: Routes = (app, services) => {
  signInRoute(app, services)
  getSessionRoute(app, services)
  signOutRoute(app, services)
  createSignInLinkRoute(app, services)
}

const signInRoute: Routes = (app, services) => {
  app.post(
    '/v1/session',
    {
      config: { scope: 'open', errors: ['unauthorized', 'scope_missing'] },
      schema: {
        operationId: 'signIn',
        summary: 'Exchange an API key or the code of a link for a session cookie',
        description: `For the page. The cookie is sent to this server's own page only, and works only together with the header \`${PAGE_HEADER}\`.`,
        tags,
        body: signInSchema,
        response: { 201: json('Signed in. The cookie is `HttpOnly` and `SameSite=Strict`.', sessionSchema) },
      },
    },
    async (request, reply) => {
      // Otherwise a page of another site could sign a browser in with a key of its own.
      if (request.headers[PAGE_HEADER] === undefined)
        throw new DormouseError(
          'scope_missing',
          `Only the page may do this: the header ${PAGE_HEADER} is missing.`,
        )
      const { apiKey, code = '' } = request.body
      const { sessions, access } = services
      const opened = apiKey === undefined ? sessions.signInWithCode(code) : sessions.signInWithKey(apiKey)
      access.checkRate(opened.key)
      const { token, key, expiresAtMs } = opened
      const cookie = setSessionCookie(token, {
        maxAgeSeconds: Math.round((expiresAtMs - Date.now()) / 1000),
        isSecure: isSecure(request),
      })
      return reply
        .code(201)
        .header('set-cookie', cookie)
        .send(sessionView(services, key, expiresAtMs))
    },
  )
}

const getSessionRoute: Routes = (app, services) => {
  app.get(
    '/v1/session',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'getSession',
        summary: 'Get the key of this request, and what it may do',
        tags,
        response: { 200: json('The key.', sessionSchema) },
      },
    },
    async (request) => {
      const token = request.headers.authorization === undefined ? cookieIn(request.headers) : undefined
      const expiresAtMs = token === undefined ? undefined : services.sessions.find(token)?.expiresAtMs
      return sessionView(services, request.key, expiresAtMs)
    },
  )
}

const signOutRoute: Routes = (app, { sessions }) => {
  app.delete(
    '/v1/session',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'signOut',
        summary: 'End this session',
        tags,
        response: { 204: nothing('The cookie is void.') },
      },
    },
    async (request, reply) => {
      const token = cookieIn(request.headers)
      if (token !== undefined) sessions.end(token)
      const cookie = setSessionCookie('', { maxAgeSeconds: 0, isSecure: isSecure(request) })
      return reply.code(204).header('set-cookie', cookie).send()
    },
  )
}

const createSignInLinkRoute: Routes = (app, { sessions }) => {
  app.post(
    '/v1/session/links',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'createSignInLink',
        summary: 'Create a link that signs a browser in once',
        description:
          'The session has the scopes of the key of this request. The link is void after a minute.',
        tags,
        body: emptyBody,
        response: { 201: json('Open it in a browser.', signInLinkSchema) },
      },
    },
    async (request, reply) => {
      const { code, expiresAtMs } = sessions.createLink(request.key)
      const expiresAt = new Date(expiresAtMs).toISOString()
      return reply.code(201).send({ path: `/#code=${code}`, code, expiresAt })
    },
  )
}

function isSecure(request: FastifyRequest): boolean {
  return publicOrigin(request.raw).scheme === 'https'
}

function sessionView(
  { health, ports }: Pick<Services, 'health' | 'ports'>,
  { keyId, name, scopes }: AuthenticatedKey,
  expiresAtMs: number | undefined,
) {
  return {
    ...{ keyId, name, scopes },
    expiresAt: expiresAtMs === undefined ? undefined : new Date(expiresAtMs).toISOString(),
    server: { version: health.check().version, previewDomain: ports.domain },
  }
}
