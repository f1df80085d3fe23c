import type { FastifyRequest } from 'fastify'
import type { Access } from '../access/access.ts'
import { requireScope } from '../access/require-scope.ts'
import type { Sessions } from '../access/sessions.ts'
import type { App } from './route.ts'
import { sessionTokenIn } from './session-cookie.ts'

/** Runs before the body is read, so that a caller without access cannot make the server buffer one. */
export function requireKeys(app: App, access: Access, sessions: Pick<Sessions, 'find'>): void {
  app.decorateRequest('key')
  /** An `Authorization` header comes first: a program that sends one never acts with a cookie. */
  const signedIn = ({ headers, ws }: FastifyRequest) => {
    if (headers.authorization !== undefined) return undefined
    const token = sessionTokenIn(headers, { isSocket: ws })
    return token === undefined ? undefined : sessions.find(token)?.key
  }
  app.addHook('onRoute', ({ config, url }) => {
    if (config?.scope === undefined) throw new Error(`the route ${url} does not say who may call it`)
  })
  app.addHook('onRequest', (request, _reply, done) => {
    const wanted = request.routeOptions.config.scope
    // No such route: nothing to protect, and the answer only says that.
    if (wanted === undefined || wanted === 'open') return done()
    const key = signedIn(request) ?? access.authenticate(request.headers.authorization)
    access.checkRate(key)
    requireScope(key, wanted)
    request.key = key
    done()
  })
}
