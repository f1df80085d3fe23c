import { z } from 'zod'
import { json, type Routes } from '../route.ts'

/** Routes about the server itself. */
export const hostRoutes: Routes = (app, services) => {
  checkHealthRoute(app, services)
  readHostMetricsRoute(app, services)
  readOpenapiRoute(app, services)
}

const checkHealthRoute: Routes = (app, { health }) => {
  app.get(
    '/healthz',
    {
      config: { scope: 'open' },
      exposeHeadRoute: true,
      schema: {
        operationId: 'checkHealth',
        summary: 'Is the server up?',
        tags: ['host'],
        response: {
          200: json('The server accepts requests.', healthSchema),
          503: json('The server is starting or stopping.', healthSchema),
        },
      },
    },
    async (_request, reply) => {
      const answer = health.check()
      return reply.code(answer.status === 'ok' ? 200 : 503).send(answer)
    },
  )
}

const readHostMetricsRoute: Routes = (app, { metrics }) => {
  app.get(
    '/metrics',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'readHostMetrics',
        summary: 'Metrics of the whole host for Prometheus',
        tags: ['host'],
        response: {
          200: {
            description: 'Prometheus text format.',
            content: { 'text/plain': { schema: z.string() } },
          },
        },
      },
    },
    async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()),
  )
}

const readOpenapiRoute: Routes = (app) => {
  let document: string | undefined
  app.get(
    '/openapi.json',
    {
      config: { scope: 'open' },
      schema: {
        operationId: 'readOpenapi',
        summary: 'This document',
        tags: ['host'],
        response: { 200: json('OpenAPI 3.1.', z.record(z.string(), z.unknown())) },
      },
    },
    async (_request, reply) => {
      // Serialized once: it is large and does not change.
      const written = document ?? JSON.stringify(app.swagger())
      document = written
      return reply
        .type('application/json; charset=utf-8')
        .serializer(() => written)
        .send({})
    },
  )
}

const healthSchema = z
  .strictObject({ status: z.enum(['ok', 'starting', 'stopping']), version: z.string() })
  .meta({ id: 'Health', examples: [{ status: 'ok', version: '0.1.0' }] })
