import {
  createSandboxSchema,
  listSandboxesQuery,
  sandboxPageSchema,
  sandboxSchema,
} from '@dormouse/contracts/http'
import { json, type Routes } from '../route.ts'

export const sandboxRoutes: Routes = (app, { sandboxes }) => {
  app.post(
    '/v1/sandboxes',
    {
      config: {
        scope: 'run',
        errors: ['template_not_found', 'name_taken', 'not_found', 'limit_reached', 'overloaded', 'no_space'],
      },
      schema: {
        operationId: 'createSandbox',
        summary: 'Create a sandbox',
        tags: ['sandboxes'],
        body: createSandboxSchema.prefault({}),
        response: {
          201: json('It runs, and is on disk.', sandboxSchema),
          200: json('`getOrCreate` found it.', sandboxSchema),
        },
      },
    },
    async (request, reply) => {
      const { sandbox, isNew } = await sandboxes.create(
        { ...request.body, name: request.body.name, expires: request.body.expires },
        request.key,
      )
      return reply.code(isNew ? 201 : 200).send(sandbox.view())
    },
  )

  app.get(
    '/v1/sandboxes',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listSandboxes',
        summary: 'List sandboxes',
        tags: ['sandboxes'],
        querystring: listSandboxesQuery,
        response: { 200: json('A page of them, newest first.', sandboxPageSchema) },
      },
    },
    async (request) => sandboxes.list(request.query, request.key),
  )
}
