import {
  createWebhookSchema,
  deliveryListSchema,
  deliverySchema,
  listWebhooksQuery,
  updateWebhookSchema,
  webhookPageSchema,
  webhookParams,
  webhookSchema,
  webhookWithSecretSchema,
} from '@dormouse/contracts/http'
import { emptyBody, json, nothing, type Routes } from '../route.ts'

const tags = ['webhooks']

export const webhookRoutes: Routes = (app, services) => {
  createWebhookRoute(app, services)
  listWebhooksRoute(app, services)
  getWebhookRoute(app, services)
  updateWebhookRoute(app, services)
  deleteWebhookRoute(app, services)
  rotateWebhookRoute(app, services)
  testWebhookRoute(app, services)
  listDeliveriesRoute(app, services)
}

const createWebhookRoute: Routes = (app, { webhooks }) => {
  app.post(
    '/v1/webhooks',
    {
      config: { scope: 'run', errors: ['name_taken', 'not_found', 'limit_reached', 'no_space'] },
      schema: {
        operationId: 'createWebhook',
        summary: 'Send events to a receiver outside',
        description:
          'Events of this key are sent with POST, at least once each, with `Dormouse-Signature: t=…,v1=…`: the HMAC-SHA256 of `t`, a dot and the body. An answer other than 2xx is tried again with growing pauses, for some hours.',
        tags,
        body: createWebhookSchema,
        response: {
          201: json('The webhook with its secret, which is shown only here.', webhookWithSecretSchema),
        },
      },
    },
    async (request, reply) => reply.code(201).send(webhooks.create(request.body, request.key)),
  )
}

const listWebhooksRoute: Routes = (app, { webhooks }) => {
  app.get(
    '/v1/webhooks',
    {
      config: { scope: 'read' },
      schema: {
        operationId: 'listWebhooks',
        summary: 'List webhooks',
        tags,
        querystring: listWebhooksQuery,
        response: { 200: json('A page of webhooks.', webhookPageSchema) },
      },
    },
    async (request) => webhooks.list(request.query, request.key),
  )
}

const getWebhookRoute: Routes = (app, { webhooks }) => {
  app.get(
    '/v1/webhooks/:name',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'getWebhook',
        summary: 'Get a webhook',
        tags,
        params: webhookParams,
        response: { 200: json('The webhook, without its secret.', webhookSchema) },
      },
    },
    async (request) => webhooks.get(request.params.name, request.key),
  )
}

const updateWebhookRoute: Routes = (app, { webhooks }) => {
  app.patch(
    '/v1/webhooks/:name',
    {
      config: { scope: 'run', errors: ['not_found', 'no_space'] },
      schema: {
        operationId: 'updateWebhook',
        summary: 'Change a webhook, or turn it off and on',
        tags,
        params: webhookParams,
        body: updateWebhookSchema,
        response: { 200: json('The webhook.', webhookSchema) },
      },
    },
    async (request) => webhooks.update(request.params.name, request.body, request.key),
  )
}

const deleteWebhookRoute: Routes = (app, { webhooks }) => {
  app.delete(
    '/v1/webhooks/:name',
    {
      config: { scope: 'run', errors: ['not_found'] },
      schema: {
        operationId: 'deleteWebhook',
        summary: 'Delete a webhook with its deliveries',
        tags,
        params: webhookParams,
        response: { 204: nothing('The webhook was deleted.') },
      },
    },
    async (request, reply) => {
      webhooks.delete(request.params.name, request.key)
      return reply.code(204).send()
    },
  )
}

const rotateWebhookRoute: Routes = (app, { webhooks }) => {
  app.post(
    '/v1/webhooks/:name/rotate',
    {
      config: { scope: 'run', errors: ['not_found', 'no_space'] },
      schema: {
        operationId: 'rotateWebhook',
        summary: 'Replace the secret of a webhook',
        description: 'For a day, deliveries are signed with the former secret, too.',
        tags,
        params: webhookParams,
        body: emptyBody,
        response: { 200: json('The webhook with its new secret.', webhookWithSecretSchema) },
      },
    },
    async (request) => webhooks.rotate(request.params.name, request.key),
  )
}

const testWebhookRoute: Routes = (app, { webhooks }) => {
  app.post(
    '/v1/webhooks/:name/test',
    {
      config: { scope: 'run', errors: ['not_found', 'limit_reached', 'no_space'] },
      schema: {
        operationId: 'testWebhook',
        summary: 'Send an event of type `test` now, once',
        tags,
        params: webhookParams,
        body: emptyBody,
        response: { 200: json('How the receiver answered.', deliverySchema) },
      },
    },
    async (request) => webhooks.test(request.params.name, request.key),
  )
}

const listDeliveriesRoute: Routes = (app, { webhooks }) => {
  app.get(
    '/v1/webhooks/:name/deliveries',
    {
      config: { scope: 'read', errors: ['not_found'] },
      schema: {
        operationId: 'listDeliveries',
        summary: 'List the latest deliveries of a webhook, newest first',
        tags,
        params: webhookParams,
        response: { 200: json('At most 200.', deliveryListSchema) },
      },
    },
    async (request) => ({ items: webhooks.deliveries(request.params.name, request.key) }),
  )
}
