import { activityQuery, activitySchema, familySchema, overviewSchema } from '@dormouse/contracts/http'
import type { FastifyRequest } from 'fastify'
import { HOP_HEADER } from '../cluster/host-connections.ts'
import { json, type Routes, sandboxParams } from '../route.ts'

const tags = ['fleet']

/** All sandboxes at once. */
export const overviewRoutes: Routes = (app, services) => {
  readOverviewRoute(app, services)
  readActivityRoute(app, services)
  readFamilyRoute(app, services)
}

const readOverviewRoute: Routes = (app, { fleet }) => {
  app.get(
    '/v1/overview',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'readOverview',
        summary: 'Get how many sandboxes run and sleep, and what sleeping saves',
        tags,
        response: { 200: json('Of all sandboxes of the key; an admin sees all.', overviewSchema) },
      },
    },
    async (request) => fleet.overview(request.key, { isLocal: isPassedOn(request) }),
  )
}

const readActivityRoute: Routes = (app, { fleet }) => {
  app.get(
    '/v1/activity',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'readActivity',
        summary: 'Get what some sandboxes did in the last day, and do now',
        description: 'Does not wake them.',
        tags,
        querystring: activityQuery,
        response: { 200: json('In the order of the ids.', activitySchema) },
      },
    },
    async (request) => fleet.activity(request.query.ids, request.key, { isLocal: isPassedOn(request) }),
  )
}

const readFamilyRoute: Routes = (app, { fleet, sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id/tree',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'readFamily',
        summary: 'Get the forks and snapshots that share an ancestor with a sandbox',
        description: 'Does not wake them.',
        tags,
        params: sandboxParams,
        response: { 200: json('Parents come before their children.', familySchema) },
      },
    },
    async (request) => fleet.family(sandboxes.get(request.params.id, request.key), request.key),
  )
}

/** Another host asks for its part. */
function isPassedOn({ headers }: FastifyRequest): boolean {
  return headers[HOP_HEADER] !== undefined
}
