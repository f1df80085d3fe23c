import { randomUUID } from 'node:crypto'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { DeliveryAnswer } from '@dormouse/contracts/http'
import type { Database } from '../store/database.ts'
import { newestPage } from '../store/newest-page.ts'
import type { Page } from '../store/page.ts'
import { isUniqueViolation } from '../store/sqlite-error.ts'
import type { SqlValue } from '../store/statement.ts'

export interface WebhookRow {
  readonly id: string
  readonly owner: string
  readonly name: string
  readonly url: string
  readonly events: readonly string[]
  readonly sandboxId: SandboxId | undefined
  readonly enabled: boolean
  /** Encrypted. */
  readonly secret: Uint8Array
  /** Also signs until then. */
  readonly former: { readonly secret: Uint8Array; readonly untilMs: number } | undefined
  readonly createdAt: number
}

export interface Delivery {
  readonly id: string
  readonly webhookId: string
  readonly type: string
  readonly body: string
  readonly attempts: number
  readonly createdAt: number
}

export interface DeliveryOutcome {
  readonly state: 'pending' | 'delivered' | 'failed'
  readonly nextAt: number
  readonly status: number | undefined
  readonly error: string | undefined
}

interface StoredRow {
  id: string
  owner: string
  name: string
  url: string
  events: string
  sandbox_id: SandboxId | null
  enabled: number
  secret: Uint8Array
  former_secret: Uint8Array | null
  former_until: number | null
  created_at: number
}

interface StoredDelivery {
  id: string
  webhook_id: string
  seq: number
  type: string
  body: string
  state: DeliveryAnswer['state']
  attempts: number
  next_at: number
  status: number | null
  error: string | null
  created_at: number
  finished_at: number | null
}

/** Deliveries of a webhook that are kept, and that may wait. */
const DELIVERIES_KEPT = 200
const WAITING_MAX = 1_000

/** The tables `webhooks` and `webhook_deliveries`. */
export class WebhookRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  add(row: WebhookRow): void {
    try {
      this.#db
        .prepare<SqlValue[]>(
          `INSERT INTO webhooks (id, owner, name, created_at, url, events, sandbox_id, enabled, secret, former_secret,
           former_until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(row.id, row.owner, row.name, row.createdAt, ...fieldsOf(row))
    } catch (error) {
      if (!isUniqueViolation(error)) throw error
      throw new DormouseError('name_taken', `There is already a webhook named "${row.name}".`)
    }
  }

  put(row: WebhookRow): void {
    this.#db
      .prepare<SqlValue[]>(
        `UPDATE webhooks SET url = ?, events = ?, sandbox_id = ?, enabled = ?, secret = ?, former_secret = ?,
         former_until = ? WHERE id = ?`,
      )
      .run(...fieldsOf(row), row.id)
  }

  get(id: string): WebhookRow | undefined {
    const row = this.#db.prepare<[string], StoredRow>('SELECT * FROM webhooks WHERE id = ?').get(id)
    return row && toRow(row)
  }

  named(owner: string, name: string): WebhookRow | undefined {
    const row = this.#db
      .prepare<[string, string], StoredRow>('SELECT * FROM webhooks WHERE owner = ? AND name = ?')
      .get(owner, name)
    return row && toRow(row)
  }

  list(query: { limit: number; cursor?: string }, owner: string): Page<WebhookRow> {
    const page = newestPage<StoredRow>(this.#db, { table: 'webhooks', matching: { owner } }, query)
    return { ...page, items: page.items.map(toRow) }
  }

  all(): WebhookRow[] {
    return this.#db.prepare<[], StoredRow>('SELECT * FROM webhooks').all().map(toRow)
  }

  delete(id: string): void {
    this.#db.prepare<[string]>('DELETE FROM webhooks WHERE id = ?').run(id)
  }

  /** Undefined when too many wait: a receiver that is down for long misses events, and the log shows it. */
  addDelivery(
    webhookId: string,
    { seq, type, body, now }: { seq: number; type: string; body: string; now: number },
  ): string | undefined {
    const waiting = this.#db
      .prepare<[string], { count: number }>(
        "SELECT count(*) AS count FROM webhook_deliveries WHERE webhook_id = ? AND state = 'pending'",
      )
      .get(webhookId)
    if ((waiting?.count ?? 0) >= WAITING_MAX) return undefined
    const id = randomUUID()
    this.#db
      .prepare<SqlValue[]>(
        `INSERT INTO webhook_deliveries (id, webhook_id, seq, type, body, state, next_at, created_at)
         VALUES (?, ?, ?, ?, ?, 'pending', ?, ?)`,
      )
      .run(id, webhookId, seq, type, body, now, now)
    return id
  }

  /** Deliveries whose time has come, oldest first. */
  due(now: number, limit: number): Delivery[] {
    return this.#db
      .prepare<[number, number], StoredDelivery>(
        "SELECT * FROM webhook_deliveries WHERE state = 'pending' AND next_at <= ? ORDER BY next_at LIMIT ?",
      )
      .all(now, limit)
      .map(toDelivery)
  }

  settle({ id, webhookId }: Delivery, { state, nextAt, status, error }: DeliveryOutcome, now: number): void {
    this.#db.transactionWithoutSync(() => {
      this.#db
        .prepare<SqlValue[]>(
          `UPDATE webhook_deliveries SET state = ?, attempts = attempts + 1, next_at = ?, status = ?, error = ?,
           finished_at = ? WHERE id = ?`,
        )
        .run(state, nextAt, status ?? null, error ?? null, state === 'pending' ? null : now, id)
      this.#db
        .prepare<[string, string, number]>(
          `DELETE FROM webhook_deliveries WHERE state <> 'pending' AND webhook_id = ? AND created_at <
           (SELECT created_at FROM webhook_deliveries WHERE webhook_id = ? ORDER BY created_at DESC LIMIT 1 OFFSET ?)`,
        )
        .run(webhookId, webhookId, DELIVERIES_KEPT)
    })
  }

  findDelivery(id: string): DeliveryAnswer | undefined {
    const row = this.#db
      .prepare<[string], StoredDelivery>('SELECT * FROM webhook_deliveries WHERE id = ?')
      .get(id)
    return row && toView(row)
  }

  deliveries(webhookId: string): DeliveryAnswer[] {
    return this.#db
      .prepare<[string, number], StoredDelivery>(
        'SELECT * FROM webhook_deliveries WHERE webhook_id = ? ORDER BY created_at DESC, id LIMIT ?',
      )
      .all(webhookId, DELIVERIES_KEPT)
      .map(toView)
  }
}

function fieldsOf({ url, events, sandboxId, enabled, secret, former }: WebhookRow): SqlValue[] {
  const second = [former?.secret ?? null, former?.untilMs ?? null]
  return [url, JSON.stringify(events), sandboxId ?? null, enabled ? 1 : 0, secret, ...second]
}

function toRow(row: StoredRow): WebhookRow {
  const { id, owner, name, url, secret, former_secret: formerSecret, former_until: untilMs } = row
  return {
    ...{ id, owner, name, url, secret, createdAt: row.created_at, enabled: row.enabled === 1 },
    events: JSON.parse(row.events) as string[],
    sandboxId: row.sandbox_id ?? undefined,
    former: formerSecret === null || untilMs === null ? undefined : { secret: formerSecret, untilMs },
  }
}

function toDelivery({
  id,
  webhook_id: webhookId,
  type,
  body,
  attempts,
  created_at: createdAt,
}: StoredDelivery): Delivery {
  return { id, webhookId, type, body, attempts, createdAt }
}

function toView(row: StoredDelivery): DeliveryAnswer {
  const { id, seq, type, state, attempts } = row
  return {
    ...{ id, seq, type, state, attempts, status: row.status ?? undefined, error: row.error ?? undefined },
    createdAt: new Date(row.created_at).toISOString(),
    nextAt: state === 'pending' ? new Date(row.next_at).toISOString() : undefined,
    finishedAt: row.finished_at === null ? undefined : new Date(row.finished_at).toISOString(),
  }
}
