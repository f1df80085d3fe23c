import { z } from 'zod'
import { nameField, pageOf, pageQuery, sandboxIdField, sandboxRefField, timestampField } from './fields.ts'

/** Events that are kept on disk, and that webhooks can have. */
export const KEPT_EVENT_TYPES = [
  'sandbox.deleted',
  'sandbox.ledger',
  'run.started',
  'run.finished',
  'job.created',
  'job.ended',
  'deploy.started',
  'deploy.ready',
  'deploy.failed',
  'deploy.rolled_back',
] as const

const URL_MAX_CHARACTERS = 2048

const urlField = z
  .string()
  .max(URL_MAX_CHARACTERS)
  .refine(isHttp, { error: 'must be an http or https URL without a user, a password or a fragment' })
  .describe('Where events are sent with POST. Private addresses are refused unless the server allows them.')
const eventsField = z
  .array(z.enum(KEPT_EVENT_TYPES))
  .min(1)
  .max(KEPT_EVENT_TYPES.length)
  .describe('Which events are sent.')

export const createWebhookSchema = z
  .strictObject({
    name: nameField.describe('Unique among the webhooks of this key.'),
    url: urlField,
    events: eventsField,
    sandbox: sandboxRefField.exactOptional().describe('Only events of this sandbox.'),
    enabled: z.boolean().default(true),
  })
  .meta({
    id: 'CreateWebhook',
    examples: [{ name: 'ci', url: 'https://example.com/hook', events: ['job.ended'] }],
  })

export const updateWebhookSchema = z
  .strictObject({
    url: urlField.exactOptional(),
    events: eventsField.exactOptional(),
    enabled: z.boolean().exactOptional(),
  })
  .refine((change) => Object.keys(change).length > 0, { error: 'has nothing to change' })
  .meta({ id: 'UpdateWebhook', examples: [{ enabled: false }] })

const webhookFields = {
  name: nameField,
  url: z.string(),
  events: z.array(z.string()).readonly(),
  sandboxId: sandboxIdField.optional(),
  enabled: z.boolean(),
  createdAt: timestampField,
}
const WEBHOOK = {
  name: 'ci',
  url: 'https://example.com/hook',
  events: ['job.ended'],
  enabled: true,
  createdAt: '2026-01-01T12:00:00.000Z',
}

export const webhookSchema = z.strictObject(webhookFields).meta({ id: 'Webhook', examples: [WEBHOOK] })
export const webhookWithSecretSchema = z
  .strictObject({
    ...webhookFields,
    secret: z.string().describe('Signs deliveries. Returned only here.'),
  })
  .meta({ id: 'WebhookWithSecret', examples: [{ ...WEBHOOK, secret: 'whsec_6xk2' }] })

export const deliverySchema = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    seq: z.int().describe('Of the event; 0 for a test.'),
    state: z.enum(['pending', 'delivered', 'failed']),
    attempts: z.int(),
    status: z.int().optional().describe('Of the last answer.'),
    error: z.string().optional(),
    createdAt: timestampField,
    nextAt: timestampField.optional().describe('When it is tried again.'),
    finishedAt: timestampField.optional(),
  })
  .meta({
    id: 'Delivery',
    examples: [
      {
        id: '0b5a6c1e-8d0e-4c52-9f0a-1f6f0f6f7f10',
        type: 'job.ended',
        seq: 1_790_000_000_000_001,
        state: 'delivered',
        attempts: 1,
        status: 204,
        createdAt: '2026-01-01T12:00:00.000Z',
      },
    ],
  })

export const webhookPageSchema = pageOf(webhookSchema).meta({ id: 'WebhookPage' })
export const deliveryListSchema = z
  .strictObject({ items: z.array(deliverySchema).readonly() })
  .meta({ id: 'DeliveryList' })
export const listWebhooksQuery = z.strictObject(pageQuery)
export const webhookParams = z.strictObject({ name: nameField })

function isHttp(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isPlain = url?.username === '' && url.password === '' && url.hash === ''
  return isPlain && (url.protocol === 'http:' || url.protocol === 'https:')
}

export type CreateWebhookBody = z.input<typeof createWebhookSchema>
export type UpdateWebhookBody = z.input<typeof updateWebhookSchema>
export type WebhookAnswer = z.output<typeof webhookSchema>
export type WebhookWithSecretAnswer = z.output<typeof webhookWithSecretSchema>
export type WebhookPageAnswer = z.output<typeof webhookPageSchema>
export type DeliveryAnswer = z.output<typeof deliverySchema>
export type DeliveryListAnswer = z.output<typeof deliveryListSchema>
