import type { Access } from '../access/access.ts'
import { requireScope } from '../access/require-scope.ts'
import type { App } from './route.ts'

/** Runs before the body is read, so that a caller without access cannot make the server buffer one. */
export function requireKeys(app: App, access: Access): void {
  app.decorateRequest('key')
  app.addHook('onRoute', ({ config, url }) => {
    if (config?.scope === undefined) throw new Error(`the route ${url} does not say who may call it`)
  })
  app.addHook('onRequest', (request, _reply, done) => {
    const wanted = request.routeOptions.config.scope
    // No such route: nothing to protect, and the answer only says that.
    if (wanted === undefined || wanted === 'open') return done()
    const key = access.authenticate(request.headers.authorization)
    access.checkRate(key)
    requireScope(key, wanted)
    request.key = key
    done()
  })
}
