import { pathPart } from './check.ts'
import type {
  CreateWebhookBody,
  DeliveryAnswer,
  DeliveryListAnswer,
  UpdateWebhookBody,
  WebhookAnswer,
  WebhookPageAnswer,
  WebhookWithSecretAnswer,
} from './contract/index.ts'
import type { Http } from './http/http.ts'
import { Pages } from './http/pages.ts'
import type { CallOptions } from './options.ts'

export type Webhook = WebhookAnswer
/** With the secret, which is returned only once. */
export type WebhookWithSecret = WebhookWithSecretAnswer
export type CreateWebhook = CreateWebhookBody
export type UpdateWebhook = UpdateWebhookBody
/** One event on its way to a receiver. */
export type Delivery = DeliveryAnswer

/** Events of the server as signed requests to a receiver outside. */
export class Webhooks {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  create(webhook: CreateWebhook, { signal, timeoutMs }: CallOptions = {}): Promise<WebhookWithSecret> {
    return this.#http.json({ method: 'POST', path: '/v1/webhooks', json: webhook, signal, timeoutMs })
  }

  list({ signal, timeoutMs }: CallOptions = {}): Pages<Webhook> {
    return new Pages((query) =>
      this.#http.json<WebhookPageAnswer>({ path: '/v1/webhooks', query, signal, timeoutMs }),
    )
  }

  async get(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Webhook> {
    return this.#http.json({ path: pathOf(name), signal, timeoutMs })
  }

  async update(
    name: string,
    change: UpdateWebhook,
    { signal, timeoutMs }: CallOptions = {},
  ): Promise<Webhook> {
    return this.#http.json({ method: 'PATCH', path: pathOf(name), json: change, signal, timeoutMs })
  }

  async delete(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    return this.#http.delete({ path: pathOf(name), signal, timeoutMs })
  }

  /** Makes a new secret. For a day, the former one also signs. */
  async rotate(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<WebhookWithSecret> {
    return this.#http.json({ method: 'POST', path: `${pathOf(name)}/rotate`, json: {}, signal, timeoutMs })
  }

  /** Sends an event of type `test` now, once. */
  async test(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<Delivery> {
    return this.#http.json({ method: 'POST', path: `${pathOf(name)}/test`, json: {}, signal, timeoutMs })
  }

  /** The latest 200, newest first. */
  async deliveries(name: string, { signal, timeoutMs }: CallOptions = {}): Promise<readonly Delivery[]> {
    const path = `${pathOf(name)}/deliveries`
    return (await this.#http.json<DeliveryListAnswer>({ path, signal, timeoutMs })).items
  }
}

function pathOf(name: string): string {
  return `/v1/webhooks/${pathPart('name', name)}`
}
