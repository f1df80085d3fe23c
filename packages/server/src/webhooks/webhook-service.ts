import { randomBytes, randomUUID } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import type {
  createWebhookSchema,
  DeliveryAnswer,
  updateWebhookSchema,
  WebhookAnswer,
  WebhookWithSecretAnswer,
} from '@dormouse/contracts/http'
import type { PublicDialer } from '@dormouse/egress'
import type { z } from 'zod'
import type { Caller } from '../access/caller.ts'
import type { StoredEvent } from '../fleet/event-rows.ts'
import type { Log } from '../log.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { SealedValues } from '../secrets/sealed-values.ts'
import type { Page } from '../store/page.ts'
import { sendDelivery } from './send-delivery.ts'
import type { Delivery, WebhookRow, WebhookRows } from './webhook-rows.ts'

type CreateWebhook = z.output<typeof createWebhookSchema>
type UpdateWebhook = z.output<typeof updateWebhookSchema>

const WEBHOOKS_MAX = 50
/** Deliveries under way at once, of all webhooks. */
const AT_ONCE = 8
const LOOK_MS = 1_000
/** A receiver has this long to answer. */
const ANSWER_MS = 10_000
/** Pauses after each failed attempt. Then the delivery has failed. */
const PAUSES_MS = [5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 10_800_000]
/** How long a secret that was replaced still signs. */
const FORMER_MS = 24 * 3_600_000

export interface WebhookDependencies {
  readonly rows: WebhookRows
  readonly values: SealedValues
  readonly sandboxes: Pick<SandboxCalls, 'get'>
  readonly dialer: Pick<PublicDialer, 'dial' | 'dialNamed'>
  readonly allowPrivate: boolean
  /** When a receiver has had long enough. Tests decide it. */
  readonly answerLimit?: () => AbortSignal
  /** Undefined when the key is revoked. */
  readonly findKey: (keyId: string) => object | undefined
  readonly nowMs: () => number
  readonly log: Log
}

export interface Webhooks {
  create(request: CreateWebhook, caller: Caller): WebhookWithSecretAnswer
  get(name: string, caller: Caller): WebhookAnswer
  list(query: { limit: number; cursor?: string }, caller: Caller): Page<WebhookAnswer>
  update(name: string, change: UpdateWebhook, caller: Caller): WebhookAnswer
  delete(name: string, caller: Caller): void
  /** Makes a new secret. The former one also signs for a day. */
  rotate(name: string, caller: Caller): WebhookWithSecretAnswer
  /** Sends an event of type `test` now, once. */
  test(name: string, caller: Caller): Promise<DeliveryAnswer>
  deliveries(name: string, caller: Caller): readonly DeliveryAnswer[]
}

/** Sends events to receivers outside, each at least once and with a signature. */
export class WebhookService implements Webhooks, Disposable {
  readonly #deps: WebhookDependencies
  readonly #stop = new AbortController()
  readonly #sending = new Set<string>()
  #hooks: readonly WebhookRow[] = []
  #timer: NodeJS.Timeout | undefined

  constructor(deps: WebhookDependencies) {
    this.#deps = deps
    this.reload()
  }

  open(): void {
    this.#timer = setInterval(() => this.look(), LOOK_MS).unref()
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#stop.abort()
  }

  /** Called in the transaction that writes the event: no event that is on disk lacks its deliveries. */
  enqueue(event: StoredEvent): void {
    for (const hook of this.#hooks) {
      if (!hook.enabled || hook.owner !== event.owner || !hook.events.includes(event.type)) continue
      if (hook.sandboxId !== undefined && hook.sandboxId !== event.sandboxId) continue
      const { seq, type, sandboxId, atMs, data } = event
      const body = JSON.stringify({ seq, type, at: new Date(atMs).toISOString(), sandboxId, data })
      this.#deps.rows.addDelivery(hook.id, { seq, type, body, now: this.#deps.nowMs() })
    }
  }

  /** Sends what is due. */
  look(): void {
    const { rows, nowMs, log } = this.#deps
    if (this.#hooks.length === 0) return
    try {
      for (const delivery of rows.due(nowMs(), AT_ONCE * 2)) {
        if (this.#sending.size >= AT_ONCE) return
        if (!this.#sending.has(delivery.id)) void this.#deliver(delivery, { isOnce: false })
      }
    } catch (err) {
      log.warn({ err }, 'deliveries of webhooks could not be read')
    }
  }

  create({ sandbox, ...request }: CreateWebhook, caller: Caller): WebhookWithSecretAnswer {
    const { rows, values, sandboxes, nowMs } = this.#deps
    if (this.#hooks.filter(({ owner }) => owner === caller.keyId).length >= WEBHOOKS_MAX)
      throw new DormouseError('limit_reached', `This key has ${WEBHOOKS_MAX} webhooks.`)
    const id = randomUUID()
    const secret = newSecret()
    const row: WebhookRow = {
      ...{ ...request, id, owner: caller.keyId, createdAt: nowMs(), former: undefined },
      sandboxId: sandbox === undefined ? undefined : sandboxes.get(sandbox, caller).id,
      secret: values.seal(secret, id),
    }
    rows.add(row)
    this.reload()
    return { ...viewOf(row), secret }
  }

  get(name: string, caller: Caller): WebhookAnswer {
    return viewOf(this.#row(name, caller))
  }

  list(query: { limit: number; cursor?: string }, { keyId }: Caller): Page<WebhookAnswer> {
    const page = this.#deps.rows.list(query, keyId)
    return { ...page, items: page.items.map(viewOf) }
  }

  update(name: string, change: UpdateWebhook, caller: Caller): WebhookAnswer {
    const row = { ...this.#row(name, caller), ...change }
    this.#deps.rows.put(row)
    this.reload()
    return viewOf(row)
  }

  delete(name: string, caller: Caller): void {
    this.#deps.rows.delete(this.#row(name, caller).id)
    this.reload()
  }

  rotate(name: string, caller: Caller): WebhookWithSecretAnswer {
    const { rows, values, nowMs } = this.#deps
    const row = this.#row(name, caller)
    const secret = newSecret()
    const former = { secret: row.secret, untilMs: nowMs() + FORMER_MS }
    const changed = { ...row, secret: values.seal(secret, row.id), former }
    rows.put(changed)
    return { ...viewOf(changed), secret }
  }

  async test(name: string, caller: Caller): Promise<DeliveryAnswer> {
    const { rows, nowMs } = this.#deps
    const { id: webhookId } = this.#row(name, caller)
    const now = nowMs()
    const body = JSON.stringify({ seq: 0, type: 'test', at: new Date(now).toISOString(), data: {} })
    const id = rows.addDelivery(webhookId, { seq: 0, type: 'test', body, now })
    if (id === undefined)
      throw new DormouseError('limit_reached', 'Too many deliveries wait for this receiver.')
    await this.#deliver({ id, webhookId, type: 'test', body, attempts: 0, createdAt: now }, { isOnce: true })
    const found = rows.findDelivery(id)
    if (found === undefined) throw new DormouseError('not_found', 'The webhook was deleted.')
    return found
  }

  deliveries(name: string, caller: Caller): readonly DeliveryAnswer[] {
    return this.#deps.rows.deliveries(this.#row(name, caller).id)
  }

  async #deliver(delivery: Delivery, { isOnce }: { isOnce: boolean }): Promise<void> {
    const { rows, dialer, allowPrivate, nowMs, findKey, log } = this.#deps
    const { answerLimit = () => AbortSignal.timeout(ANSWER_MS) } = this.#deps
    const hook = rows.get(delivery.webhookId)
    if (hook === undefined) return
    this.#sending.add(delivery.id)
    let status: number | undefined
    let error: string | undefined
    try {
      if (findKey(hook.owner) === undefined) throw new Error('The key was revoked.')
      const secrets = this.#secretsOf(hook)
      const { id, type, body } = delivery
      const signal = AbortSignal.any([this.#stop.signal, answerLimit()])
      const how = { secrets, nowMs: nowMs(), allowPrivate, signal }
      status = await sendDelivery(dialer, { url: hook.url, id, type, body, ...how })
      if (status < 200 || status >= 300) error = `The receiver answered with ${status}.`
    } catch (thrown) {
      error = thrown instanceof Error ? thrown.message.slice(0, 500) : 'There was no answer.'
    }
    // The next server sends it again.
    if (this.#stop.signal.aborted) return
    try {
      const pauseMs = isOnce ? undefined : PAUSES_MS[delivery.attempts]
      const state = error === undefined ? 'delivered' : pauseMs === undefined ? 'failed' : 'pending'
      rows.settle(delivery, { state, nextAt: nowMs() + (pauseMs ?? 0), status, error }, nowMs())
    } catch (err) {
      log.warn({ err }, 'the outcome of a delivery could not be recorded; it is sent again')
    } finally {
      this.#sending.delete(delivery.id)
    }
  }

  #secretsOf({ id, secret, former }: WebhookRow): string[] {
    const { values, nowMs } = this.#deps
    const sealed = [secret, ...(former !== undefined && former.untilMs > nowMs() ? [former.secret] : [])]
    const found = sealed.flatMap((one) => values.find(one, id) ?? [])
    if (found.length === 0) throw new Error('The secret cannot be read. Rotate it.')
    return found
  }

  #row(name: string, { keyId }: Caller): WebhookRow {
    const row = this.#deps.rows.named(keyId, name)
    if (row === undefined) throw new DormouseError('not_found', `There is no webhook named "${name}".`)
    return row
  }

  /** Every event looks at all webhooks, so they are in memory. Also called when another host has changed a row. */
  reload(): void {
    this.#hooks = this.#deps.rows.all()
  }
}

function viewOf({ name, url, events, sandboxId, enabled, createdAt }: WebhookRow): WebhookAnswer {
  return { name, url, events, sandboxId, enabled, createdAt: new Date(createdAt).toISOString() }
}

function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64url')}`
}
