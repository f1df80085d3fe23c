import { DormouseError } from '@dormouse/contracts'
import {
  createdKeySchema,
  createKeySchema,
  keyPageSchema,
  keyParams,
  keySchema,
  listKeysQuery,
  updateKeySchema,
} from '@dormouse/contracts/http'
import { json, type Routes } from '../route.ts'

const tags = ['keys']

export const keyRoutes: Routes = (app, services) => {
  createKeyRoute(app, services)
  listKeysRoute(app, services)
  getKeyRoute(app, services)
  updateKeyRoute(app, services)
  revokeKeyRoute(app, services)
}

const createKeyRoute: Routes = (app, { access }) => {
  app.post(
    '/v1/keys',
    {
      config: { scope: 'admin' },
      schema: {
        operationId: 'createKey',
        summary: 'Create an API key',
        tags,
        body: createKeySchema,
        response: { 201: json('The whole key, which is shown only once.', createdKeySchema) },
      },
    },
    async (request, reply) => {
      const { view, key } = access.create(request.body)
      return reply
        .code(201)
        .header('cache-control', 'no-store')
        .send({ ...view, key })
    },
  )
}

const listKeysRoute: Routes = (app, { access }) => {
  app.get(
    '/v1/keys',
    {
      config: { scope: 'admin' },
      schema: {
        operationId: 'listKeys',
        summary: 'List API keys',
        tags,
        querystring: listKeysQuery,
        response: { 200: json('A page of keys, oldest first, including revoked ones.', keyPageSchema) },
      },
    },
    async (request) => {
      const { limit, cursor } = request.query
      const keys = access.list()
      const start = cursor === undefined ? 0 : keys.findIndex(({ id }) => id === cursor)
      if (start < 0)
        throw new DormouseError('invalid_argument', 'query: cursor: does not belong to this list')
      return { items: keys.slice(start, start + limit), nextCursor: keys[start + limit]?.id }
    },
  )
}

const getKeyRoute: Routes = (app, { access }) => {
  app.get(
    '/v1/keys/:id',
    {
      config: { scope: 'admin', errors: ['not_found'] },
      schema: {
        operationId: 'getKey',
        summary: 'Get an API key',
        tags,
        params: keyParams,
        response: { 200: json('The key, without its secret, which is not stored.', keySchema) },
      },
    },
    async (request) => access.get(request.params.id),
  )
}

const updateKeyRoute: Routes = (app, { access }) => {
  app.patch(
    '/v1/keys/:id',
    {
      config: { scope: 'admin', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'updateKey',
        summary: 'Change the name, the quotas or the rate limit of an API key',
        tags,
        params: keyParams,
        body: updateKeySchema,
        response: { 200: json('Applies from the next request on.', keySchema) },
      },
    },
    async (request) => access.update(request.params.id, request.body),
  )
}

const revokeKeyRoute: Routes = (app, { access }) => {
  app.delete(
    '/v1/keys/:id',
    {
      config: { scope: 'admin', errors: ['not_found', 'conflict'] },
      schema: {
        operationId: 'revokeKey',
        summary: 'Revoke an API key',
        description: 'Applies from the next request on, and ends its streams. Its sandboxes stay.',
        tags,
        params: keyParams,
        response: { 200: json('The revoked key, which stays in the list.', keySchema) },
      },
    },
    async (request) => access.revoke(request.params.id),
  )
}
