import { z } from 'zod'
import { readJson, sendJson, sendNothing } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import type { VolumeContent } from '../volume/volume-content.ts'
import { parseBody } from './bodies.ts'
import { type Authenticated, BODY_MAX_BYTES, type ControlParts } from './sandbox-routes.ts'

const PAGE_MAX = 100
const createBody = z.object({ name: z.string() })

/** Volumes. Their name is their id, and a token that comes with it gives access to their files. */
export function volumeRoutes(
  router: Router<Authenticated>,
  { backend }: ControlParts,
  content: VolumeContent,
): void {
  const { volumes } = backend
  router.on('GET', '/volumes', ({ response, key }) => {
    const found: object[] = []
    let cursor: string | undefined
    do {
      const page = volumes.list({ limit: PAGE_MAX, ...(cursor && { cursor }) }, key)
      for (const { name } of page.items) found.push({ volumeID: name, name })
      cursor = page.nextCursor
    } while (cursor !== undefined)
    sendJson(response, 200, found)
  })
  router.on('POST', '/volumes', async ({ request, response, key }) => {
    const { name } = parseBody(createBody, await readJson(request, BODY_MAX_BYTES))
    await volumes.create({ name }, key)
    sendJson(response, 201, { volumeID: name, name, token: content.tokenFor(name, key) })
  })
  router.on('GET', '/volumes/:id', async ({ response, params, key }) => {
    const { name } = await volumes.get(params['id'] ?? '', key)
    sendJson(response, 200, { volumeID: name, name, token: content.tokenFor(name, key) })
  })
  router.on('DELETE', '/volumes/:id', async ({ response, params, key }) => {
    const { name } = await volumes.get(params['id'] ?? '', key)
    await content.release(name, key)
    await volumes.delete(name, key)
    sendNothing(response)
  })
}
