import { hasErrorCode, isSnapshotId } from '@dormouse/contracts'
import type { TemplateAnswer } from '@dormouse/contracts/http'
import { ENVD_VERSION } from '../envd/envd.ts'
import { ApiError } from '../http/api-error.ts'
import { sendJson, sendNothing } from '../http/respond.ts'
import type { Router } from '../http/router.ts'
import type { Authenticated, ControlParts } from './sandbox-routes.ts'

const PAGE_MAX = 100
const STATUS = { building: 'building', ready: 'ready', failed: 'error' } as const

/** Templates of Dormouse as clients of E2B list, find and delete them. A template has one build: its own. */
export function templateRoutes(router: Router<Authenticated>, parts: ControlParts): void {
  const { backend, ownTemplate } = parts
  for (const path of ['/templates', '/v2/templates'])
    router.on('GET', path, async ({ response, query, key }) => {
      const cursor = query.get('nextToken')
      const { items, nextCursor } = await backend.templates.list(
        { limit: PAGE_MAX, ...(cursor && { cursor }) },
        key,
      )
      if (nextCursor !== undefined) response.setHeader('x-next-token', nextCursor)
      sendJson(response, 200, items.map(viewOf))
    })
  router.on('GET', '/templates/aliases/:alias', async ({ response, params, key }) => {
    const alias = (params['alias'] ?? '').split(':')[0] ?? ''
    if (ownTemplate.isOwn(alias)) sendJson(response, 200, { templateID: alias, public: true })
    else sendJson(response, 200, { templateID: (await find(alias, key)).name, public: false })
  })
  router.on('GET', '/templates/:id', async ({ response, params, key }) => {
    const template = await find(params['id'] ?? '', key)
    const { name, createdAt } = template
    const build = { buildID: name, status: STATUS[template.state], createdAt, updatedAt: createdAt }
    sendJson(response, 200, { ...viewOf(template), builds: [{ ...build, cpuCount: 1, memoryMB: 1024 }] })
  })
  router.on('DELETE', '/templates/:id', async ({ response, params, key }) => {
    const id = params['id'] ?? ''
    if (isSnapshotId(id)) await deleteSnapshot(id, key)
    else await backend.templates.delete((await find(id, key)).name, key)
    sendNothing(response)
  })

  /** A snapshot that was deleted stays as long as a sandbox wakes from it. To its client it is gone. */
  async function deleteSnapshot(id: string, key: Authenticated['key']): Promise<void> {
    await backend.sandboxes.deleteSnapshot(id, key).catch((error: unknown) => {
      if (!hasErrorCode(error, 'in_use')) throw error
      throw new ApiError(404, `Snapshot '${id}' not found`)
    })
  }

  async function find(id: string, key: Authenticated['key']): Promise<TemplateAnswer> {
    try {
      return await backend.templates.get(id, key)
    } catch (error) {
      if (hasErrorCode(error, 'template_not_found')) throw new ApiError(404, `Template '${id}' not found`)
      throw error
    }
  }
}

function viewOf({ name, createdAt, bytes, source, state }: TemplateAnswer): object {
  return {
    templateID: name,
    buildID: name,
    cpuCount: 1,
    memoryMB: 1024,
    diskSizeMB: Math.ceil((bytes ?? 0) / 1024 ** 2),
    public: source === 'built_in' || source === 'host',
    aliases: [name],
    names: [name],
    createdAt,
    updatedAt: createdAt,
    createdBy: null,
    lastSpawnedAt: null,
    spawnCount: 0,
    buildCount: 1,
    envdVersion: ENVD_VERSION,
    buildStatus: STATUS[state],
  }
}
