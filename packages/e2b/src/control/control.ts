import type { IncomingMessage, ServerResponse } from 'node:http'
import { keyIn } from '../api-key.ts'
import type { Key } from '../backend.ts'
import { headerOf } from '../envd/caller.ts'
import { ApiError } from '../http/api-error.ts'
import { sendError } from '../http/respond.ts'
import { Router } from '../http/router.ts'
import type { VolumeContent } from '../volume/volume-content.ts'
import { observeRoutes } from './observe-routes.ts'
import { type Authenticated, type ControlParts, sandboxRoutes } from './sandbox-routes.ts'
import { secretRoutes } from './secret-routes.ts'
import { snapshotRoutes } from './snapshot-routes.ts'
import { teamRoutes } from './team-routes.ts'
import { templateBuildRoutes } from './template-build-routes.ts'
import { templateRoutes } from './template-routes.ts'
import { volumeRoutes } from './volume-routes.ts'

/** E2B's control API: sandboxes, snapshots, templates, volumes and secrets of a key. */
export class Control {
  readonly #parts: ControlParts
  readonly #router = new Router<Authenticated>()

  constructor(parts: ControlParts, content: VolumeContent) {
    this.#parts = parts
    // First, because `metrics` is no id.
    observeRoutes(this.#router, parts)
    sandboxRoutes(this.#router, parts)
    snapshotRoutes(this.#router, parts)
    // First, because `tags` is no id.
    templateBuildRoutes(this.#router, parts)
    templateRoutes(this.#router, parts)
    volumeRoutes(this.#router, parts, content)
    secretRoutes(this.#router, parts.backend)
    teamRoutes(this.#router)
  }

  has(path: string): boolean {
    return this.#router.find(undefined, path).isKnownPath
  }

  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    { path, query }: { path: string; query: URLSearchParams },
  ): Promise<void> {
    try {
      const { handle, params } = this.#router.find(request.method, path)
      if (handle === undefined) throw new ApiError(405, 'method not allowed')
      const key = this.#authenticate(request)
      if (request.method !== 'GET' && !key.scopes.some((scope) => scope === 'run' || scope === 'admin'))
        throw new ApiError(403, 'The API key may only read')
      await handle({ request, response, params, query, key })
    } catch (error) {
      request.resume()
      sendError(response, error)
    }
  }

  #authenticate({ headers }: IncomingMessage): Key {
    const bearer = headers.authorization?.replace(/^Bearer +/i, '')
    const { access } = this.#parts.backend
    const key = access.authenticate(`Bearer ${keyIn(headerOf(headers, 'x-api-key') ?? bearer)}`)
    access.checkRate(key)
    return key
  }
}
