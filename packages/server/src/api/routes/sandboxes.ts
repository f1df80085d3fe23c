import {
  createSandboxSchema,
  listSandboxesQuery,
  sandboxPageSchema,
  sandboxSchema,
  updateSandboxSchema,
} from '@dormouse/contracts/http'
import { disconnected } from '../event-stream.ts'
import { json, nothing, type Routes, sandboxParams } from '../route.ts'

const tags = ['sandboxes']

export const sandboxRoutes: Routes = (app, services) => {
  createSandboxRoute(app, services)
  listSandboxesRoute(app, services)
  getSandboxRoute(app, services)
  updateSandboxRoute(app, services)
  deleteSandboxRoute(app, services)
}

const createSandboxRoute: Routes = (app, { sandboxes, policyDefaults, defaultLimits }) => {
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
        tags,
        body: createSandboxSchema.prefault({}),
        response: {
          201: json('It runs, and is on disk.', sandboxSchema),
          200: json('`getOrCreate` found it.', sandboxSchema),
        },
      },
    },
    async (request, reply) => {
      const { name, expires, ...rest } = request.body
      const limits = { ...defaultLimits(request.key), ...rest.limits }
      const { sandbox, isNew } = await sandboxes.create(
        { ...policyDefaults, ...rest, limits, name, expires },
        request.key,
        disconnected(reply),
      )
      return reply.code(isNew ? 201 : 200).send(sandbox.view())
    },
  )
}

const listSandboxesRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listSandboxes',
        summary: 'List sandboxes',
        tags,
        querystring: listSandboxesQuery,
        response: { 200: json('A page of them.', sandboxPageSchema) },
      },
    },
    async (request) => sandboxes.list(request.query, request.key),
  )
}

const getSandboxRoute: Routes = (app, { sandboxes }) => {
  app.get(
    '/v1/sandboxes/:id',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getSandbox',
        summary: 'Look at a sandbox',
        description: 'Does not wake it.',
        tags,
        params: sandboxParams,
        response: { 200: json('As it is now.', sandboxSchema) },
      },
    },
    async (request) => sandboxes.get(request.params.id, request.key).view(),
  )
}

const updateSandboxRoute: Routes = (app, { sandboxes }) => {
  app.patch(
    '/v1/sandboxes/:id',
    {
      config: { scope: 'run', errors: ['not_found', 'name_taken', 'conflict', 'limit_reached'] },
      schema: {
        operationId: 'updateSandbox',
        summary: 'Change what a sandbox is called and how it is treated',
        description: 'Fields that are not named stay as they are. Does not wake it.',
        tags,
        params: sandboxParams,
        body: updateSandboxSchema,
        response: { 200: json('As it is now.', sandboxSchema) },
      },
    },
    async (request) => {
      const { name, expires, ...rest } = request.body
      return await sandboxes.get(request.params.id, request.key).update({
        ...rest,
        ...(name === undefined ? {} : { name: name ?? undefined }),
        ...(expires === undefined ? {} : { expires: expires ?? undefined }),
      })
    },
  )
}

const deleteSandboxRoute: Routes = (app, { sandboxes }) => {
  app.delete(
    '/v1/sandboxes/:id',
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'deleteSandbox',
        summary: 'Delete a sandbox',
        description:
          'Ends what runs in it. Its files and what it slept with are gone; snapshots that were asked for and volumes stay.',
        tags,
        params: sandboxParams,
        response: { 204: nothing('Nothing of it is left.') },
      },
    },
    async (request, reply) => {
      await sandboxes.get(request.params.id, request.key).delete()
      return reply.code(204).send()
    },
  )
}
