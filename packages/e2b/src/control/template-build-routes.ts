import type { IncomingMessage } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { ApiError } from '../http/api-error.ts'
import { readJson, sendJson, sendNothing } from '../http/respond.ts'
import type { Exchange, Router } from '../http/router.ts'
import { askBody, assignBody, startBody, unassignBody } from '../template/build-body.ts'
import type { BuildLine } from '../template/build-logs.ts'
import { type BuildRef, buildsWithTag, checkTag } from '../template/template-records.ts'
import { parseBody } from './bodies.ts'
import { type Authenticated, BODY_MAX_BYTES, type ControlParts } from './sandbox-routes.ts'

/** Sizes of templates whose client does not say one, as at E2B. */
const DEFAULT_CPU_COUNT = 2
const DEFAULT_MEMORY_MB = 1024
/** Lines in one answer. Clients ask again until none are left. */
const LINES_MAX = 100

const bodyOf = ({ request }: Exchange) => readJson(request, BODY_MAX_BYTES)

/** Builds templates, step by step, and gives tags to builds. */
export function templateBuildRoutes(router: Router<Authenticated>, parts: ControlParts): void {
  const { builds, ownTemplate } = parts
  for (const path of ['/v3/templates', '/v2/templates'])
    router.on('POST', path, async (exchange) => {
      const body = parseBody(askBody, await bodyOf(exchange))
      const name = body.name ?? body.alias ?? ''
      if (ownTemplate.isOwn(name.split(':')[0] ?? ''))
        throw new ApiError(403, `The name '${name}' belongs to a template of the host`)
      const ref = builds.records.add(
        {
          ...{ name, tags: body.tags ?? [] },
          cpuCount: body.cpuCount ?? DEFAULT_CPU_COUNT,
          memoryMB: body.memoryMB ?? DEFAULT_MEMORY_MB,
        },
        exchange.key,
      )
      sendJson(exchange.response, 202, askedView(ref))
    })
  router.on('GET', '/templates/:id/files/:hash', async ({ request, response, params, key }) => {
    const hash = params['hash'] ?? ''
    builds.records.get(params['id'] ?? '', key)
    const url = `${originOf(request)}${builds.files.newLink(hash, key)}`
    sendJson(response, 201, { present: await builds.files.has(hash, key), url })
  })
  router.on('POST', '/v2/templates/:id/builds/:build', async (exchange) => {
    const body = parseBody(startBody, await bodyOf(exchange))
    builds.start(buildOf(exchange), body, exchange.key)
    sendNothing(exchange.response, 202)
  })
  router.on('GET', '/templates/:id/builds/:build/status', async (exchange) => {
    const ref = buildOf(exchange)
    const offset = countOf(exchange, 'logsOffset', 0)
    const limit = Math.min(countOf(exchange, 'limit', LINES_MAX), LINES_MAX)
    // First: a build that ends in between has all of its lines then.
    const { status, reason } = await builds.statusOf(ref, exchange.key)
    const entries = (await builds.linesOf(ref, exchange.key)).slice(offset, offset + limit).map(entryOf)
    sendJson(exchange.response, 200, {
      ...{ templateID: ref.template.templateId, buildID: ref.build.buildId, status },
      ...{ logs: entries.map(({ message }) => message), logEntries: entries },
      ...(reason !== undefined && { reason: { ...reason, logEntries: [] } }),
    })
  })
  router.on('GET', '/templates/:id/builds/:build/logs', async (exchange) => {
    const lines = await builds.linesOf(buildOf(exchange), exchange.key)
    const limit = countOf(exchange, 'limit', LINES_MAX)
    const after = countOf(exchange, 'cursor', 0)
    const wanted = lines.filter(({ at }) => at >= after)
    const isBackward = exchange.query.get('direction') === 'backward'
    sendJson(exchange.response, 200, {
      logs: (isBackward ? wanted.slice(-limit).reverse() : wanted.slice(0, limit)).map(entryOf),
    })
  })
  tagRoutes(router, parts)

  function buildOf({ params, key }: Exchange & Authenticated): BuildRef {
    return builds.records.getBuild(params['id'] ?? '', params['build'] ?? '', key)
  }
}

function tagRoutes(router: Router<Authenticated>, { builds }: ControlParts): void {
  const { records } = builds
  router.on('POST', '/templates/tags', async (exchange) => {
    const { target, tags } = parseBody(assignBody, await bodyOf(exchange))
    const { buildId } = await builds.assign(target, tags.map(checkTag), exchange.key)
    sendJson(exchange.response, 201, { tags, buildID: buildId })
  })
  router.on('DELETE', '/templates/tags', async (exchange) => {
    const { name, tags } = parseBody(unassignBody, await bodyOf(exchange))
    const template = records.get(name, exchange.key)
    const kept = template.builds.map((build) => ({
      ...build,
      tags: Object.fromEntries(Object.entries(build.tags).filter(([tag]) => !tags.includes(tag))),
    }))
    records.put({ ...template, builds: kept }, exchange.key)
    sendNothing(exchange.response)
  })
  router.on('GET', '/templates/:id/tags', ({ response, params, key }) => {
    const template = records.get(params['id'] ?? '', key)
    const names = new Set(template.builds.flatMap(({ tags }) => Object.keys(tags)))
    const tags = [...names].flatMap((tag) => {
      const [build] = buildsWithTag(template, tag)
      if (build === undefined) return []
      return [{ tag, buildID: build.buildId, createdAt: new Date(build.tags[tag] ?? 0).toISOString() }]
    })
    sendJson(response, 200, tags)
  })
}

function askedView({ template, build }: BuildRef): object {
  const { templateId, name, isPublic } = template
  return {
    ...{ templateID: templateId, buildID: build.buildId, public: isPublic },
    ...{ names: [name], aliases: [name], tags: Object.keys(build.tags) },
  }
}

function entryOf({ at, text }: BuildLine): { timestamp: string; level: string; message: string } {
  return { timestamp: new Date(at).toISOString(), level: 'info', message: text }
}

function countOf({ query }: Exchange, name: string, fallback: number): number {
  const count = Number(query.get(name) ?? fallback)
  if (Number.isSafeInteger(count) && count >= 0) return count
  throw new ApiError(400, `${name}: must be a number`)
}

/** The address that the client reached this server at. */
function originOf({ headers, socket }: IncomingMessage): string {
  const isNear = /^(?:::ffff:)?127\.|^::1$/.test(socket.remoteAddress ?? '')
  // A proxy on this host says how its client reached it.
  const isForwarded = isNear && headers['x-forwarded-proto'] === 'https'
  const isTls = isForwarded || (socket as Partial<TLSSocket>).encrypted === true
  return `${isTls ? 'https' : 'http'}://${headers.host ?? 'localhost'}`
}
