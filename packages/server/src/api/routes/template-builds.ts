import {
  DEFAULT_TEMPLATE,
  debugTemplateSchema,
  sandboxSchema,
  templateLogLineSchema,
  templateLogQuery,
  templateParams,
} from '@dormouse/contracts/http'
import { z } from 'zod'
import type { LogLine } from '../../templates/build-log.ts'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { json, type Routes } from '../route.ts'

const tags = ['templates']

/** Logs of builds, and sandboxes in the state before a step that failed. */
export const templateBuildRoutes: Routes = (app, services) => {
  followLogRoute(app, services)
  debugTemplateRoute(app, services)
}

const followLogRoute: Routes = (app, { templates }) => {
  app.get(
    '/v1/templates/:name/log',
    {
      config: { scope: 'read', errors: ['template_not_found', 'not_acceptable'] },
      schema: {
        operationId: 'followTemplateLog',
        summary: 'Follow the log of a build',
        description:
          'Streams lines as they come and ends with the build. After a build, returns the end of its log.',
        tags,
        params: templateParams,
        querystring: templateLogQuery,
        response: {
          200: {
            description: 'One line of JSON per log line.',
            content: {
              [NDJSON]: { schema: templateLogLineSchema },
              [SSE]: { schema: z.string().describe('One log line per `data:`.') },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const { name } = request.params
      const type = negotiate(request.headers.accept, [NDJSON, SSE])
      const lines = await templates.log(name, request.query.after, request.key, disconnected(reply))
      await sendEvents(request, reply, type, views(lines))
      return reply
    },
  )
}

async function* views(lines: AsyncIterable<LogLine>) {
  for await (const { seq, at, text } of lines) yield { seq, at: new Date(at).toISOString(), text }
}

const debugTemplateRoute: Routes = (app, { templates, sandboxes, policyDefaults, defaultLimits }) => {
  app.post(
    '/v1/templates/:name/debug',
    {
      config: {
        scope: 'run',
        errors: ['template_not_found', 'conflict', 'name_taken', 'limit_reached', 'overloaded', 'no_space'],
      },
      schema: {
        operationId: 'debugTemplate',
        summary: 'Create a sandbox in the state before the build step that failed',
        tags,
        params: templateParams,
        body: debugTemplateSchema.prefault({}),
        response: { 201: json('The sandbox runs.', sandboxSchema) },
      },
    },
    async (request, reply) => {
      const { key } = request
      const step = templates.failedStep(request.params.name, key)
      const { snapshotId, image } = step
      const { sandbox } = await sandboxes.create(
        {
          ...{ ...policyDefaults, limits: defaultLimits(key), name: request.body.name, expires: undefined },
          ...{ metadata: { 'dormouse/template': request.params.name }, env: {}, volumes: [], secrets: [] },
          ...({ wakeOnTimer: false, atMemoryLimit: 'kill', checkpointEveryMs: 0, ephemeral: false } as const),
          template: snapshotId === undefined ? step.template : DEFAULT_TEMPLATE,
          snapshotId,
        },
        key,
        disconnected(reply),
        { image },
      )
      return reply.code(201).send(sandbox.view())
    },
  )
}
