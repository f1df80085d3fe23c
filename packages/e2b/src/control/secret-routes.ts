import type { SecretAnswer } from '@dormouse/contracts/http'
import { z } from 'zod'
import type { Backend } from '../backend.ts'
import { readJson, sendJson, sendNothing } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import { parseBody } from './bodies.ts'
import { type Authenticated, BODY_MAX_BYTES } from './sandbox-routes.ts'

const KIND = 'secret'
const PAGE_MAX = 100

const metadataField = z.record(z.string(), z.string()).nullish()
const createBody = z.object({ name: z.string(), value: z.string().min(1), metadata: metadataField })
const updateBody = z.object({ value: z.string().min(1), metadata: metadataField })

interface Added {
  readonly version: number
  readonly metadata: Readonly<Record<string, string>>
}

/**
 * Secrets. Their values never reach sandboxes. E2B's clients cannot say which hosts get a secret, so a secret that they
 * create reaches none until its domains are set with Dormouse's own tools.
 */
export function secretRoutes(router: Router<Authenticated>, { secrets, items }: Backend): void {
  const addedTo = (owner: string, name: string) =>
    (items.find({ kind: KIND, owner, name }) as Added | undefined) ?? { version: 1, metadata: {} }
  const viewOf = (secret: SecretAnswer, owner: string): object => {
    const { version, metadata } = addedTo(owner, secret.name)
    return {
      ...{ secretID: secret.name, name: secret.name, currentVersion: version, metadata },
      ...{ createdAt: secret.createdAt, updatedAt: secret.updatedAt },
    }
  }
  router.on('GET', '/secrets', ({ response, query, key }) => {
    const cursor = query.get('nextToken')
    const limit = Math.min(PAGE_MAX, Math.max(1, Number(query.get('limit')) || PAGE_MAX))
    const page = secrets.list({ limit, ...(cursor && { cursor }) }, key)
    if (page.nextCursor !== undefined) response.setHeader('x-next-token', page.nextCursor)
    sendJson(
      response,
      200,
      page.items.map((secret) => viewOf(secret, key.keyId)),
    )
  })
  router.on('POST', '/secrets', async ({ request, response, key }) => {
    const { name, value, metadata } = parseBody(createBody, await readJson(request, BODY_MAX_BYTES))
    const secret = secrets.create({ name, value, domains: [] }, key)
    items.put({ kind: KIND, owner: key.keyId, name }, { version: 1, metadata: metadata ?? {} })
    sendJson(response, 201, viewOf(secret, key.keyId))
  })
  router.on('GET', '/secrets/:id', ({ response, params, key }) =>
    sendJson(response, 200, viewOf(secrets.get(params['id'] ?? '', key), key.keyId)),
  )
  router.on('POST', '/secrets/:id', async ({ request, response, params, key }) => {
    const { value, metadata } = parseBody(updateBody, await readJson(request, BODY_MAX_BYTES))
    const secret = await secrets.update(params['id'] ?? '', { value }, key)
    const before = addedTo(key.keyId, secret.name)
    const added = { version: before.version + 1, metadata: metadata ?? before.metadata }
    items.put({ kind: KIND, owner: key.keyId, name: secret.name }, added)
    sendJson(response, 200, viewOf(secret, key.keyId))
  })
  router.on('DELETE', '/secrets/:id', async ({ response, params, key }) => {
    const name = params['id'] ?? ''
    await secrets.delete(name, { force: false }, key)
    items.delete({ kind: KIND, owner: key.keyId, name })
    sendNothing(response)
  })
}
