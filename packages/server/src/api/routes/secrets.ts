import {
  createSecretSchema,
  deleteSecretQuery,
  listSecretsQuery,
  secretPageSchema,
  secretParams,
  secretSchema,
  updateSecretSchema,
} from '@dormouse/contracts/http'
import { json, nothing, type Routes } from '../route.ts'

const tags = ['secrets']

export const secretRoutes: Routes = (app, services) => {
  createSecretRoute(app, services)
  listSecretsRoute(app, services)
  getSecretRoute(app, services)
  updateSecretRoute(app, services)
  deleteSecretRoute(app, services)
}

const createSecretRoute: Routes = (app, { secrets }) => {
  app.post(
    '/v1/secrets',
    {
      config: { scope: 'run', errors: ['name_taken', 'limit_reached', 'no_space'] },
      schema: {
        operationId: 'createSecret',
        summary: 'Create a secret',
        tags,
        body: createSecretSchema,
        response: { 201: json('Without its value, which nothing shows again.', secretSchema) },
      },
    },
    async (request, reply) => reply.code(201).send(secrets.create(request.body, request.key)),
  )
}

const listSecretsRoute: Routes = (app, { secrets }) => {
  app.get(
    '/v1/secrets',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listSecrets',
        summary: 'List secrets',
        tags,
        querystring: listSecretsQuery,
        response: { 200: json('A page of them, without values.', secretPageSchema) },
      },
    },
    async (request) => secrets.list(request.query, request.key),
  )
}

const getSecretRoute: Routes = (app, { secrets }) => {
  app.get(
    '/v1/secrets/:name',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getSecret',
        summary: 'Look at a secret',
        tags,
        params: secretParams,
        response: { 200: json('It, without its value.', secretSchema) },
      },
    },
    async (request) => secrets.get(request.params.name, request.key),
  )
}

const updateSecretRoute: Routes = (app, { secrets }) => {
  app.patch(
    '/v1/secrets/:name',
    {
      config: { scope: 'run', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'updateSecret',
        summary: 'Change the value or the domains of a secret',
        description: 'The next requests of sandboxes that have it go by it. The placeholder stays.',
        tags,
        params: secretParams,
        body: updateSecretSchema,
        response: { 200: json('As it is now, without its value.', secretSchema) },
      },
    },
    async (request) => await secrets.update(request.params.name, request.body, request.key),
  )
}

const deleteSecretRoute: Routes = (app, { secrets }) => {
  app.delete(
    '/v1/secrets/:name',
    {
      config: { scope: 'run', errors: ['not_found', 'in_use', 'conflict'] },
      schema: {
        operationId: 'deleteSecret',
        summary: 'Delete a secret',
        description: 'Refused while a sandbox has it, unless `force` takes it from them.',
        tags,
        params: secretParams,
        querystring: deleteSecretQuery,
        response: { 204: nothing('It is gone.') },
      },
    },
    async (request, reply) => {
      await secrets.delete(request.params.name, request.query, request.key)
      return reply.code(204).send()
    },
  )
}
