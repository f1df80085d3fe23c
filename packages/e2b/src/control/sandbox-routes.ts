import type { Backend, BackendSandbox, Key } from '../backend.ts'
import { ApiError } from '../http/api-error.ts'
import { disconnected, readJson, sendJson, sendNothing } from '../http/respond.ts'
import type { Exchange, Router } from '../http/router.ts'
import type { Lifecycle } from '../sandbox/lifecycle.ts'
import type { MetricSeries } from '../sandbox/metric-series.ts'
import type { OwnTemplate } from '../sandbox/own-template.ts'
import type { TemplateBuilds } from '../template/template-builds.ts'
import {
  connectBody,
  createBody,
  forkBody,
  networkUpdateBody,
  parseBody,
  pauseBody,
  refreshBody,
  resumeBody,
  timeoutBody,
} from './bodies.ts'
import { createSandbox } from './create-sandbox.ts'
import { networkPolicy } from './network-policy.ts'
import { listSandboxes } from './sandbox-list.ts'
import { connectionView, detailView } from './sandbox-views.ts'

export const BODY_MAX_BYTES = 4 * 1024 * 1024

export interface Authenticated {
  readonly key: Key
}

export interface ControlParts {
  readonly backend: Backend
  readonly lifecycle: Lifecycle
  readonly ownTemplate: OwnTemplate
  readonly builds: TemplateBuilds
  readonly series: MetricSeries
  /** The sandbox is gone: forget what is only in memory. */
  readonly forget: (sandboxId: string) => void
}

/** Timeouts of requests that do not say one, in seconds. */
const DEFAULT_TIMEOUT_S = { v1: 15, v2: 300 }

const bodyOf = ({ request }: Exchange) => readJson(request, BODY_MAX_BYTES)
const idOf = ({ params }: Exchange) => params['id'] ?? ''

/** With the port that the client reached this server at, so that host names below the domain lead here, too. */
function domainFor({ domain }: Backend, { request }: Exchange): string | undefined {
  return domain === undefined ? undefined : `${domain}${/:\d+$/.exec(request.headers.host ?? '')?.[0] ?? ''}`
}

export function sandboxRoutes(router: Router<Authenticated>, parts: ControlParts): void {
  createAndConnect(router, parts)
  readRoutes(router, parts)
  lifeRoutes(router, parts)
}

function createAndConnect(router: Router<Authenticated>, parts: ControlParts): void {
  const { backend, lifecycle } = parts
  for (const [path, version] of [
    ['/sandboxes', 'v1'],
    ['/v2/sandboxes', 'v2'],
  ] as const) {
    router.on('POST', path, async (exchange) => {
      const body = parseBody(createBody, await bodyOf(exchange))
      const timeoutS = body.timeout ?? DEFAULT_TIMEOUT_S[version]
      if (version === 'v2' && timeoutS < 1) throw new ApiError(400, 'timeout: must be at least 1')
      const isSecure = version === 'v2' || body.secure === true
      const signal = disconnected(exchange.response)
      const record = await createSandbox(parts, exchange.key, { body, timeoutS, isSecure, signal })
      sendJson(exchange.response, 201, connectionView(record, domainFor(backend, exchange)))
    })
    router.on('POST', `${path}/:id/connect`, async (exchange) => {
      const { timeout, memory } = parseBody(connectBody, await bodyOf(exchange))
      const timeoutMs = (timeout ?? DEFAULT_TIMEOUT_S.v2) * 1000
      const options = { timeoutMs, reboots: memory === false }
      const { record, isResumed } = await lifecycle.connect(idOf(exchange), exchange.key, options)
      sendJson(exchange.response, isResumed ? 201 : 200, connectionView(record, domainFor(backend, exchange)))
    })
  }
  router.on('POST', '/sandboxes/:id/resume', async (exchange) => {
    const { timeout } = parseBody(resumeBody, await bodyOf(exchange))
    const id = idOf(exchange)
    const timeoutMs = (timeout ?? DEFAULT_TIMEOUT_S.v1) * 1000
    const { record, isResumed } = await lifecycle.connect(id, exchange.key, { timeoutMs, reboots: false })
    if (!isResumed) throw new ApiError(409, `Sandbox ${id} is already running`)
    sendJson(exchange.response, 201, connectionView(record, domainFor(backend, exchange)))
  })
}

function readRoutes(router: Router<Authenticated>, { backend, lifecycle }: ControlParts): void {
  for (const path of ['/sandboxes', '/v2/sandboxes'])
    router.on('GET', path, ({ key, response, query }) => {
      // The first version of the list has only running sandboxes.
      if (path === '/sandboxes') query.set('state', 'running')
      const { page, nextToken, running } = listSandboxes(backend, key, { query })
      if (nextToken !== undefined) response.setHeader('x-next-token', nextToken)
      response.setHeader('x-total-running', running)
      sendJson(response, 200, page)
    })
  router.on('GET', '/sandboxes/:id', (exchange) => {
    const { sandbox, record } = lifecycle.get(idOf(exchange), exchange.key)
    sendJson(exchange.response, 200, detailView(record, sandbox.view(), domainFor(backend, exchange)))
  })
}

function lifeRoutes(router: Router<Authenticated>, { backend, lifecycle, forget }: ControlParts): void {
  router.on('DELETE', '/sandboxes/:id', async (exchange) => {
    const { sandbox } = lifecycle.get(idOf(exchange), exchange.key)
    await sandbox.delete()
    forget(sandbox.id)
    sendNothing(exchange.response)
  })
  router.on('POST', '/sandboxes/:id/pause', async (exchange) => {
    const { memory } = parseBody(pauseBody, await bodyOf(exchange))
    await lifecycle.pause(idOf(exchange), exchange.key, { keepsMemory: memory !== false })
    sendNothing(exchange.response)
  })
  router.on('POST', '/sandboxes/:id/timeout', async (exchange) => {
    const { timeout } = parseBody(timeoutBody, await bodyOf(exchange))
    await lifecycle.setTimeout(idOf(exchange), exchange.key, timeout * 1000)
    sendNothing(exchange.response)
  })
  router.on('POST', '/sandboxes/:id/refreshes', async (exchange) => {
    const { duration } = parseBody(refreshBody, await bodyOf(exchange))
    await lifecycle.refresh(idOf(exchange), exchange.key, (duration ?? DEFAULT_TIMEOUT_S.v1) * 1000)
    sendNothing(exchange.response)
  })
  router.on('PUT', '/sandboxes/:id/network', async (exchange) => {
    const body = parseBody(networkUpdateBody, await bodyOf(exchange))
    const { sandbox, record } = lifecycle.get(idOf(exchange), exchange.key)
    await sandbox.update({ network: networkPolicy(body, backend.policyDefaults.network) })
    const { allow_internet_access: _internet, ...network } = body
    backend.records.put({ ...record, network: { ...record.network, ...network } })
    sendNothing(exchange.response)
  })
  router.on('POST', '/sandboxes/:id/fork', async (exchange) => {
    const { timeout, count } = parseBody(forkBody, await bodyOf(exchange))
    const { sandbox, record } = lifecycle.get(idOf(exchange), exchange.key)
    const timeoutMs = (timeout ?? DEFAULT_TIMEOUT_S.v2) * 1000
    const signal = disconnected(exchange.response)
    const children = await sandbox.fork({ count: count ?? 1, reseed: true, signal })
    const domain = domainFor(backend, exchange)
    const results = children.map(async ({ id }) => {
      const child: BackendSandbox = backend.sandboxes.get(id, exchange.key)
      return { sandbox: connectionView(await lifecycle.fork(record, child, timeoutMs), domain) }
    })
    sendJson(exchange.response, 201, await Promise.all(results))
  })
}
