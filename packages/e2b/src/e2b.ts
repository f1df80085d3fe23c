import type { IncomingMessage, ServerResponse } from 'node:http'
import { hasErrorCode } from '@dormouse/contracts'
import type { Backend } from './backend.ts'
import { Control } from './control/control.ts'
import { headerOf } from './envd/caller.ts'
import { ENVD_PORT, Envd } from './envd/envd.ts'
import { isSame, isSigned } from './envd/signature.ts'
import { ApiError } from './http/api-error.ts'
import { sendError } from './http/respond.ts'
import { INTERPRETER_PORT, Interpreter } from './interpreter/interpreter.ts'
import { findTarget, type Target } from './proxy/find-target.ts'
import {
  sendBadTrafficToken,
  sendPortClosed,
  sendSandboxNotFound,
  TRAFFIC_HEADER,
} from './proxy/proxy-error.ts'
import { Lifecycle } from './sandbox/lifecycle.ts'
import { MetricSeries } from './sandbox/metric-series.ts'
import { OwnTemplate } from './sandbox/own-template.ts'
import type { SandboxRecord } from './sandbox/record.ts'
import { TemplateBuilds } from './template/template-builds.ts'
import { TemplateFiles } from './template/template-files.ts'
import { ContentRoutes } from './volume/content-routes.ts'
import { VolumeContent } from './volume/volume-content.ts'

/** Serves E2B's clients: the control API at its paths, and sandboxes by header or host name. */
export class E2b implements Disposable {
  readonly #backend: Backend
  readonly #lifecycle: Lifecycle
  readonly #control: Control
  readonly #content: ContentRoutes
  readonly #files: TemplateFiles
  readonly #envd = new Envd()
  readonly #interpreter: Interpreter
  readonly #series: MetricSeries

  constructor(backend: Backend) {
    this.#backend = backend
    this.#lifecycle = new Lifecycle(backend)
    this.#interpreter = new Interpreter(backend.runs)
    const content = new VolumeContent(backend)
    this.#content = new ContentRoutes(content)
    this.#files = new TemplateFiles(backend)
    this.#series = new MetricSeries(backend)
    const ownTemplate = new OwnTemplate(backend.templates)
    const parts = {
      ...{ backend, ownTemplate, lifecycle: this.#lifecycle, series: this.#series },
      builds: new TemplateBuilds(backend, { files: this.#files, ownTemplate }),
      forget: (sandboxId: string) => this.forget(sandboxId),
    }
    this.#control = new Control(parts, content)
  }

  [Symbol.dispose](): void {
    this.#series[Symbol.dispose]()
  }

  forget(sandboxId: string): void {
    this.#envd.forget(sandboxId)
    this.#interpreter.forget(sandboxId)
  }

  /** Whether the request is for a sandbox that clients of E2B know. */
  isTarget(request: Pick<IncomingMessage, 'headers'>): boolean {
    const target = findTarget(request, this.#backend.domain)
    // Ports of sandboxes that no client of E2B knows are previews as always.
    return (
      target !== undefined &&
      (headerOf(request.headers, 'e2b-sandbox-id') !== undefined || this.#knows(target))
    )
  }

  /** Returns whether the request was for E2B; then it is being answered. `head`: of an upgrade request. */
  take(request: IncomingMessage, response: ServerResponse, head?: Buffer): boolean {
    const target = findTarget(request, this.#backend.domain)
    if (target !== undefined) {
      const isOurs = this.isTarget(request)
      if (isOurs) void this.#serveSandbox(request, response, { target, head })
      return isOurs
    }
    // The server's own API, in which E2B has nothing: parsing a URL takes as long as the rest of this method.
    if (head !== undefined || request.url?.startsWith('/v1/') === true) return false
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    if (pathname === '/files' && searchParams.has('signature')) {
      void this.#serveSigned(request, response, searchParams)
      return true
    }
    if (this.#files.isLink(pathname)) {
      void this.#files.serve(request, response, { path: pathname })
      return true
    }
    const door = [this.#control, this.#content].find((one) => one.has(pathname))
    void door?.serve(request, response, { path: pathname, query: searchParams })
    return door !== undefined
  }

  /** A signed URL below `E2B_SANDBOX_URL` does not name its sandbox; the token that signed it does. */
  async #serveSigned(
    request: IncomingMessage,
    response: ServerResponse,
    query: URLSearchParams,
  ): Promise<void> {
    const operation = request.method === 'POST' ? 'write' : 'read'
    for (const { sandboxId, accessToken } of this.#backend.records.all()) {
      if (accessToken === undefined || !isSigned(accessToken, operation, query)) continue
      await this.#serveSandbox(request, response, { target: { sandboxId, port: ENVD_PORT }, head: undefined })
      return
    }
    request.resume()
    sendError(response, new ApiError(401, 'invalid signature'))
  }

  #knows({ sandboxId, port }: Target): boolean {
    const { records } = this.#backend
    // The ports of a sandbox that was deleted get the error of E2B's proxy, not that of previews.
    const isKnown = records.find(sandboxId) !== undefined || records.isGone(sandboxId)
    return port === ENVD_PORT || port === INTERPRETER_PORT || isKnown
  }

  async #serveSandbox(
    request: IncomingMessage,
    response: ServerResponse,
    { target, head }: { target: Target; head: Buffer | undefined },
  ): Promise<void> {
    const { sandboxId, port } = target
    try {
      const reached = await this.#reach(sandboxId)
      if (reached === undefined) {
        sendSandboxNotFound(request, response, sandboxId)
        return
      }
      const { sandbox, record } = reached
      const { pathname: path, searchParams: query } = new URL(request.url ?? '/', 'http://localhost')
      const exchange = { request, response, query, sandbox, record, path }
      if (port === ENVD_PORT && head === undefined) {
        await this.#envd.serve(exchange)
        return
      }
      if (!checkTraffic(request, response, record)) return
      if (port === INTERPRETER_PORT && head === undefined) await this.#interpreter.serve(exchange)
      else
        await this.#backend.forward({
          request,
          response,
          head,
          sandbox,
          port,
          host: maskedHost(record, port),
        })
    } catch (error) {
      if (hasErrorCode(error, 'port_closed')) sendPortClosed(request, response, target)
      else if (hasErrorCode(error, 'not_found')) sendSandboxNotFound(request, response, sandboxId)
      else {
        this.#backend.log.error({ err: error, sandboxId, port }, 'a request of an E2B client failed')
        sendError(response, error)
      }
    }
  }

  async #reach(sandboxId: string) {
    try {
      return await this.#lifecycle.reach(sandboxId)
    } catch (error) {
      if (hasErrorCode(error, 'not_found')) return undefined
      throw error
    }
  }
}

/** `maskRequestHost` of the client's network options, in which `${PORT}` stands for the port. */
function maskedHost({ network }: SandboxRecord, port: number): string | undefined {
  const mask = network?.['maskRequestHost']
  return typeof mask === 'string' && mask !== '' ? mask.replaceAll(/\$\{PORT\}/g, String(port)) : undefined
}

/** False: the request has been refused. */
function checkTraffic(
  request: IncomingMessage,
  response: ServerResponse,
  { trafficToken, sandboxId }: SandboxRecord,
): boolean {
  if (trafficToken === undefined) return true
  const given = headerOf(request.headers, TRAFFIC_HEADER)
  if (given !== undefined && isSame(given, trafficToken)) return true
  sendBadTrafficToken(request, response, { sandboxId, isMissing: given === undefined })
  return false
}
