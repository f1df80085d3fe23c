import { serviceLogLineSchema, serviceLogsQuery, serviceParams } from '@dormouse/contracts/http'
import { z } from 'zod'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import type { Routes } from '../route.ts'

export const serviceLogRoutes: Routes = (app, { deployments }) => {
  app.get(
    '/v1/services/:service/logs',
    {
      config: { scope: 'read', errors: ['not_found', 'not_acceptable'] },
      schema: {
        operationId: 'readServiceLogs',
        summary: 'Read what the programs of a service print',
        description: 'Oldest first. Wakes nothing.',
        tags: ['services'],
        params: serviceParams,
        querystring: serviceLogsQuery,
        response: {
          200: {
            description: 'One line of JSON per log line.',
            content: {
              [NDJSON]: { schema: serviceLogLineSchema },
              [SSE]: { schema: z.string().describe('One log line per `data:`.') },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { after, since, search, tail, follow } = request.query
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const sinceMs = since === undefined ? undefined : Date.parse(since)
      const query = { after, sinceMs, search, tail, follow, signal: disconnected(reply) }
      await sendEvents(request, reply, type, deployments.logs(request.params.service, query, request.key))
      return reply
    },
  )
}
