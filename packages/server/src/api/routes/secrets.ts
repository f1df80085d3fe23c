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
        response: { 201: json('The secret, without its value, which is never shown again.', secretSchema) },
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
        response: { 200: json('A page of secrets, without values.', secretPageSchema) },
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
        summary: 'Get a secret',
        tags,
        params: secretParams,
        response: { 200: json('The secret, without its value.', secretSchema) },
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
        description: 'Applies to new requests of sandboxes that use it. The placeholder stays.',
        tags,
        params: secretParams,
        body: updateSecretSchema,
        response: { 200: json('The secret, without its value.', secretSchema) },
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
        description: 'Refused while a sandbox uses it, unless `force` removes it from them.',
        tags,
        params: secretParams,
        querystring: deleteSecretQuery,
        response: { 204: nothing('The secret was deleted.') },
      },
    },
    async (request, reply) => {
      await secrets.delete(request.params.name, request.query, request.key)
      return reply.code(204).send()
    },
  )
}
