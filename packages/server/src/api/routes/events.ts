import { serverEventSchema, serverEventsQuery } from '@dormouse/contracts/http'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import type { Routes } from '../route.ts'

const SEQ = /^\d{1,16}$/

/** What happens on the whole server. */
export const eventRoutes: Routes = (app, { fleet, sandboxes }) => {
  app.get(
    '/v1/events',
    {
      config: { scope: 'read', errors: ['not_found', 'not_acceptable'] },
      schema: {
        operationId: 'followEvents',
        summary: 'Follow what happens to all sandboxes',
        description:
          'A new reader gets a `gap` first. Wakes nothing. A reader that lost its connection continues after the last `seq` it has, with a `gap` only where events are gone.',
        tags: ['fleet'],
        querystring: serverEventsQuery,
        response: {
          200: {
            description: 'Events.',
            content: { [NDJSON]: { schema: serverEventSchema }, [SSE]: { schema: serverEventSchema } },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const { sandbox } = request.query
      const sandboxId = sandbox === undefined ? undefined : sandboxes.get(sandbox, request.key).id
      const lastId = request.headers['last-event-id']
      const resumed = typeof lastId === 'string' && SEQ.test(lastId) ? Number(lastId) : undefined
      const after = request.query.after ?? resumed
      const events = fleet.events.follow({
        after,
        caller: request.key,
        sandboxId,
        signal: disconnected(reply),
      })
      await sendEvents(request, reply, type, events)
      return reply
    },
  )
}
