import { hasErrorCode, isSnapshotId } from '@dormouse/contracts'
import type { TemplateAnswer } from '@dormouse/contracts/http'
import { ApiError } from '../http/api-error.ts'
import { readJson, sendJson, sendNothing } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import { publishBody } from '../template/build-body.ts'
import { parseBody } from './bodies.ts'
import { type Authenticated, BODY_MAX_BYTES, type ControlParts } from './sandbox-routes.ts'
import { buildsView, hostTemplateView, templateView } from './template-views.ts'

const PAGE_MAX = 100

type Key = Authenticated['key']

/** Lists, finds and deletes templates: those that clients of E2B built, and those of Dormouse by their own names. */
export function templateRoutes(router: Router<Authenticated>, parts: ControlParts): void {
  const { backend, ownTemplate, builds } = parts
  const { records } = builds
  listRoutes(router, parts)
  router.on('GET', '/templates/aliases/:alias', async ({ response, params, key }) => {
    const alias = params['alias'] ?? ''
    const name = alias.split(':')[0] ?? ''
    const record = records.find(alias, key)
    if (record !== undefined)
      sendJson(response, 200, { templateID: record.templateId, public: record.isPublic })
    else if (ownTemplate.isOwn(name)) sendJson(response, 200, { templateID: name, public: true })
    else sendJson(response, 200, { templateID: (await find(name, key)).name, public: false })
  })
  router.on('GET', '/templates/:id', async ({ response, params, key }) => {
    const record = records.find(params['id'] ?? '', key)
    if (record !== undefined) sendJson(response, 200, await buildsView(builds, record, key))
    else {
      const template = await find(params['id'] ?? '', key)
      const view = hostTemplateView(template)
      sendJson(response, 200, { ...view, builds: [{ ...view, status: view['buildStatus'] }] })
    }
  })
  for (const path of ['/templates/:id', '/v2/templates/:id'])
    router.on('PATCH', path, async ({ request, response, params, key }) => {
      const body = parseBody(publishBody, await readJson(request, BODY_MAX_BYTES))
      const record = records.get(params['id'] ?? '', key)
      records.put({ ...record, isPublic: body.public ?? record.isPublic }, key)
      sendJson(response, 200, { names: [record.name] })
    })
  router.on('DELETE', '/templates/:id', async ({ response, params, key }) => {
    const id = params['id'] ?? ''
    const record = records.find(id, key)
    if (record !== undefined) await builds.delete(record, key)
    else if (isSnapshotId(id)) await deleteSnapshot(id, key)
    else await backend.templates.delete((await find(id, key)).name, key)
    sendNothing(response)
  })

  /** A snapshot that was deleted stays as long as a sandbox wakes from it. To its client it is gone. */
  async function deleteSnapshot(id: string, key: Key): Promise<void> {
    await backend.sandboxes.deleteSnapshot(id, key).catch((error: unknown) => {
      if (!hasErrorCode(error, 'in_use')) throw error
      throw new ApiError(404, `Snapshot '${id}' not found`)
    })
  }

  async function find(id: string, key: Key): Promise<TemplateAnswer> {
    try {
      return await backend.templates.get(id, key)
    } catch (error) {
      if (hasErrorCode(error, 'template_not_found')) throw new ApiError(404, `Template '${id}' not found`)
      throw error
    }
  }
}

function listRoutes(router: Router<Authenticated>, { backend, builds }: ControlParts): void {
  for (const path of ['/templates', '/v2/templates'])
    router.on('GET', path, async ({ response, query, key }) => {
      const cursor = query.get('nextToken')
      const page = await backend.templates.list({ limit: PAGE_MAX, ...(cursor && { cursor }) }, key)
      if (page.nextCursor !== undefined) response.setHeader('x-next-token', page.nextCursor)
      const own = builds.records.list(key)
      const isBuild = new Set(own.flatMap((one) => one.builds.map(({ template }) => template)))
      // Templates that clients of E2B built come first, so they are on the first page.
      const first = cursor ? [] : await Promise.all(own.map((one) => templateView(builds, one, key)))
      const others = page.items.filter(({ name }) => !isBuild.has(name)).map(hostTemplateView)
      sendJson(response, 200, [...first, ...others])
    })
}
