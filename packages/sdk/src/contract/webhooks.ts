// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CreateWebhookBody = {
  name: string
  url: string
  events: (
    | 'deploy.failed'
    | 'deploy.ready'
    | 'deploy.rolled_back'
    | 'deploy.started'
    | 'job.created'
    | 'job.ended'
    | 'run.finished'
    | 'run.started'
    | 'sandbox.deleted'
    | 'sandbox.ledger'
  )[]
  sandbox?: string
  enabled?: boolean | undefined
}

export type DeliveryAnswer = {
  id: string
  type: string
  seq: number
  state: 'delivered' | 'failed' | 'pending'
  attempts: number
  status?: number | undefined
  error?: string | undefined
  createdAt: string
  nextAt?: string | undefined
  finishedAt?: string | undefined
}

export type DeliveryListAnswer = { items: readonly DeliveryAnswer[] }

export type UpdateWebhookBody = {
  url?: string
  events?: (
    | 'deploy.failed'
    | 'deploy.ready'
    | 'deploy.rolled_back'
    | 'deploy.started'
    | 'job.created'
    | 'job.ended'
    | 'run.finished'
    | 'run.started'
    | 'sandbox.deleted'
    | 'sandbox.ledger'
  )[]
  enabled?: boolean
}

export type WebhookAnswer = {
  name: string
  url: string
  events: readonly string[]
  sandboxId?: string | undefined
  enabled: boolean
  createdAt: string
}

export type WebhookPageAnswer = { items: readonly WebhookAnswer[]; nextCursor?: string | undefined }

export type WebhookWithSecretAnswer = {
  name: string
  url: string
  events: readonly string[]
  sandboxId?: string | undefined
  enabled: boolean
  createdAt: string
  secret: string
}
