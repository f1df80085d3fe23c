import { usageQuery, usageSchema } from '@dormouse/contracts/http'
import { z } from 'zod'
import { negotiate } from '../accept.ts'
import { HOP_HEADER } from '../cluster/host-connections.ts'
import type { Routes } from '../route.ts'
import { usageCsv } from '../usage-csv.ts'

const JSON_TYPE = 'application/json'
const CSV_TYPE = 'text/csv'

export const usageRoutes: Routes = (app, { usage }) => {
  app.get(
    '/v1/usage',
    {
      config: { scope: 'read', errors: ['not_acceptable'] },
      schema: {
        operationId: 'readUsage',
        summary: 'Get usage, per sandbox and in total',
        tags: ['usage'],
        querystring: usageQuery,
        response: {
          200: {
            description: 'JSON, or CSV with one line per sandbox.',
            content: { [JSON_TYPE]: { schema: usageSchema }, [CSV_TYPE]: { schema: z.string() } },
          },
        },
      },
    },
    async (request, reply) => {
      const { format, ...query } = request.query
      const accepted =
        format ?? (negotiate(request.headers.accept, [JSON_TYPE, CSV_TYPE]) === CSV_TYPE ? 'csv' : 'json')
      const isLocal = request.headers[HOP_HEADER] !== undefined
      const report = await usage.report(query, request.key, { isLocal })
      if (accepted === 'json') return reply.send(report)
      return reply.type(`${CSV_TYPE}; charset=utf-8; header=present`).send(usageCsv(report))
    },
  )
}
