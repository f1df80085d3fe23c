import type { Server } from 'node:http'
import { parseInput } from '@dormouse/contracts'
import fastify, { type FastifyServerOptions, LogController } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { requireKeys } from './authentication.ts'
import { type AskOthers, mergeLists } from './cluster/merge-lists.ts'
import { type ClusterDoor, usePassOn } from './cluster/pass-on.ts'
import { allowOrigins } from './cors.ts'
import { type ErrorAnswers, errorAnswers } from './error-answer.ts'
import { useJsonBodies } from './json-body.ts'
import {
  CLIENT_TIMEOUTS,
  type ClientTimeouts,
  CONNECTIONS_MAX,
  HEADERS_CHECK_MS,
  HEADERS_MAX_BYTES,
  JSON_BODY_MAX_BYTES,
  KEEP_ALIVE_TIMEOUT_MS,
  PATH_PARAMETER_MAX_CHARACTERS,
  TCP_KEEP_ALIVE_MS,
} from './limits.ts'
import { answerMalformedRequests } from './malformed-request.ts'
import { describeRoutes } from './openapi.ts'
import type { PreviewRequest } from './preview/preview-message.ts'
import { usePreviews } from './preview/previews.ts'
import { parseQueryString } from './query-string.ts'
import { requestIds } from './request-id.ts'
import { logRequests } from './request-log.ts'
import type { App, Routes } from './route.ts'
import { ROUTES } from './routes/all.ts'
import type { Services } from './services.ts'
import { answerUnknownRoutes } from './unknown-route.ts'
import { useWebSockets } from './web-sockets.ts'

export interface AppOptions {
  /** Logs one line of JSON per request and failure; false: no log. */
  readonly logger: FastifyServerOptions['logger']
  readonly tls?: { readonly key: string | Buffer; readonly cert: string | Buffer } | undefined
  /** Prefixes of host paths that callers must not see, such as the data directory. */
  readonly hostPaths?: readonly string[]
  /** Origins of web pages that may call the API. */
  readonly origins?: readonly string[]
  /** URL of the page that explains the error codes. */
  readonly docsUrl?: string
  readonly clientTimeouts?: Partial<ClientTimeouts>
  /** Requests for sandboxes of other hosts are passed on. Undefined outside a cluster. */
  readonly cluster?: ClusterDoor | undefined
  /** Asks the other hosts of the cluster for their part of a list. */
  readonly askOthers?: AskOthers | undefined
  /** Awaited before the answer to a request that may have changed something. */
  readonly beforeAnswer?: (() => Promise<void>) | undefined
  /** Routes besides those of the API. */
  readonly moreRoutes?: readonly Routes[]
  /** Checks every JSON answer against its schema. For tests: it costs time. */
  readonly checkAnswers?: boolean
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly errorAnswers: ErrorAnswers
    readonly clientTimeouts: ClientTimeouts
    /** Requests that are answered before previews see them. */
    readonly takenBefore: ((request: PreviewRequest) => boolean)[]
  }
}

/** Builds the HTTP API. The caller listens and closes. */
export async function createApp(services: Services, options: AppOptions): Promise<App> {
  const clientTimeouts = { ...CLIENT_TIMEOUTS, ...options.clientTimeouts }
  const answers = errorAnswers({
    docsUrl: options.docsUrl ?? 'docs/errors.md',
    hostPaths: options.hostPaths ?? [],
  })
  const server = {
    maxHeaderSize: HEADERS_MAX_BYTES,
    headersTimeout: clientTimeouts.headersMs,
    connectionsCheckingInterval: Math.min(HEADERS_CHECK_MS, clientTimeouts.headersMs),
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    // No limit for the whole request: an upload takes as long as its sender needs. `json-body.ts` limits the others.
    requestTimeout: 0,
  }
  const app = fastify({
    ...(options.tls === undefined ? { http: server } : { https: { ...server, ...options.tls } }),
    logger: options.logger ?? false,
    // request-log.ts logs instead: one line per request instead of two, without the query.
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestIds(),
    requestIdHeader: false,
    bodyLimit: JSON_BODY_MAX_BYTES,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    // A stopping server does not wait for the readers of streams.
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: PATH_PARAMETER_MAX_CHARACTERS, querystringParser: parseQueryString },
    frameworkErrors: (error, request, reply) => void answers.send(error, request, reply),
    clientErrorHandler: answerMalformedRequests(answers),
  } as FastifyServerOptions).withTypeProvider<ZodTypeProvider>() as unknown as App
  ;(app.server as Server).maxConnections = CONNECTIONS_MAX
  // Node would answer 417 without a body. A server may ignore unknown expectations, and this one does.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response))

  app.decorate('errorAnswers', answers)
  app.decorate('clientTimeouts', clientTimeouts)
  app.decorate('takenBefore', [])
  app.setErrorHandler((error, request, reply) => answers.send(error, request, reply))
  useSchemas(app, options.checkAnswers ?? false)
  useJsonBodies(app, clientTimeouts.jsonBodyMs)
  logRequests(app)
  allowOrigins(app, options.origins ?? [])
  answerUnknownRoutes(app)
  await useWebSockets(app)
  requireKeys(app, services.access, services.sessions)
  waitBeforeAnswers(app, options.beforeAnswer)
  if (options.askOthers !== undefined) mergeLists(app, options.askOthers)
  await describeRoutes(app, services.health.check().version)
  for (const routes of [...ROUTES, ...(options.moreRoutes ?? [])]) {
    await app.register(async (scope) => routes(scope as unknown as App, services))
  }
  const takePreviews = usePreviews(app, services)
  const takeForOthers = options.cluster && usePassOn(app, services, options.cluster)
  await app.ready()
  takePreviews()
  // Before previews: those of sandboxes elsewhere are passed on, too.
  takeForOthers?.()
  return app
}

/** A change that is acknowledged outlives the host that made it. */
function waitBeforeAnswers(app: App, wait: AppOptions['beforeAnswer']): void {
  if (wait === undefined) return
  app.addHook('onSend', async ({ method }) => {
    if (method !== 'GET' && method !== 'HEAD') await wait()
  })
}

const PARTS: Record<string, string> = {
  querystring: 'query',
  params: 'path',
  headers: 'headers',
  body: 'body',
}

const NO_QUERY = z.strictObject({})

function useSchemas(app: App, checkAnswers: boolean): void {
  app.addHook('onRoute', (route) => {
    if (route.schema?.querystring === undefined) route.schema = { ...route.schema, querystring: NO_QUERY }
  })
  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => {
    const what = PARTS[httpPart ?? 'body'] ?? 'request'
    return (value) => {
      try {
        // The framework passes null where there is no body.
        return { value: parseInput(schema, value ?? undefined, what) }
      } catch (error) {
        return { error: error as Error }
      }
    }
  })
  app.setSerializerCompiler<z.ZodType>(({ schema, url }) =>
    checkAnswers ? (value) => JSON.stringify(parseInput(schema, value, `answer of ${url}`)) : JSON.stringify,
  )
}
