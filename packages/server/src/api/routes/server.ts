import { serverLogLineSchema, serverLogQuery, serverReportSchema } from '@dormouse/contracts/http'
import { z } from 'zod'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { json, type Routes } from '../route.ts'

const tags = ['host']

/** How the server and its host are. */
export const serverRoutes: Routes = (app, services) => {
  readServerRoute(app, services)
  readServerLogRoute(app, services)
}

const readServerRoute: Routes = (app, { server }) => {
  app.get(
    '/v1/server',
    {
      config: { scope: 'admin' },
      schema: {
        operationId: 'readServer',
        summary: 'Check the host, and read its free disk and memory',
        tags,
        response: { 200: json('What `dormouse doctor` finds.', serverReportSchema) },
      },
    },
    async () => server.report(),
  )
}

const readServerLogRoute: Routes = (app, { server }) => {
  app.get(
    '/v1/server/log',
    {
      config: { scope: 'admin', errors: ['not_acceptable'] },
      schema: {
        operationId: 'readServerLog',
        summary: "Read the newest lines of the server's log",
        description: 'The server keeps 1,000 lines in memory. With `follow`, streams lines as they come.',
        tags,
        querystring: serverLogQuery,
        response: {
          200: {
            description: 'One line of JSON per log line.',
            content: {
              [NDJSON]: { schema: serverLogLineSchema },
              [SSE]: { schema: z.string().describe('One log line per `data:`, its `seq` as `id:`.') },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const signal = disconnected(reply)
      await sendEvents(request, reply, type, server.log({ ...request.query, signal }))
      return reply
    },
  )
}
