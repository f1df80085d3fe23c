import { DormouseError } from '@dormouse/contracts'
import type { App } from './route.ts'
import { type Access, SCOPES, type Scope } from './services.ts'

/** Before the body is read: who may not call a route cannot make the server hold one. */
export function requireKeys(app: App, access: Access): void {
  app.decorateRequest('key')
  app.addHook('onRoute', ({ config, url }) => {
    if (config?.scope === undefined) throw new Error(`the route ${url} does not say who may call it`)
  })
  app.addHook('onRequest', (request, _reply, done) => {
    const needed = request.routeOptions.config.scope
    // No such route: there is nothing to protect, and the answer says only that.
    if (needed === undefined || needed === 'open') return done()
    const key = access.authenticate(request.headers.authorization)
    if (!includes(key.scope, needed)) {
      throw new DormouseError('scope_missing', `this needs a key with the scope "${needed}"`, {
        details: { needed, scope: key.scope },
      })
    }
    request.key = key
    done()
  })
}

function includes(scope: Scope, needed: Scope): boolean {
  return SCOPES.indexOf(scope) >= SCOPES.indexOf(needed)
}
