import { sendJson } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import type { Authenticated } from './sandbox-routes.ts'

/** A key is a team of its own: it owns its sandboxes, templates, volumes and secrets. */
export function teamRoutes(router: Router<Authenticated>): void {
  router.on('GET', '/teams', ({ response, key }) => {
    sendJson(response, 200, [{ teamID: key.keyId, name: key.name, apiKey: '', isDefault: true }])
  })
}
