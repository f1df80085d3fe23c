import { createHash } from 'node:crypto'
import type { SandboxId, ServiceId } from '@dormouse/contracts'
import type { Database } from '../store/database.ts'

/** Of one service. The one that was not used for longest is forgotten first. */
const SESSIONS_MAX = 10_000
/** Written again only after this time: a session may be used many times a second. */
const USE_STEP_MS = 60_000

interface Pin {
  readonly sandboxId: SandboxId
  usedAtMs: number
  writtenAtMs: number
}

/** Which replica the sessions of clients belong to. Survives a restart of the server. */
export class ServiceSessions {
  readonly #db: Database
  readonly #serviceId: ServiceId
  readonly #nowMs: () => number
  /** Least recently used first. */
  readonly #pins = new Map<string, Pin>()

  constructor(db: Database, serviceId: ServiceId, nowMs: () => number) {
    this.#db = db
    this.#serviceId = serviceId
    this.#nowMs = nowMs
    const stored = db
      .prepare<[string], { session: string; sandbox_id: SandboxId; used_at: number }>(
        'SELECT session, sandbox_id, used_at FROM service_sessions WHERE service_id = ? ORDER BY used_at',
      )
      .all(serviceId)
    for (const { session, sandbox_id: sandboxId, used_at: usedAtMs } of stored)
      this.#pins.set(session, { sandboxId, usedAtMs, writtenAtMs: usedAtMs })
  }

  find(session: string): SandboxId | undefined {
    const key = keyOf(session)
    const pin = this.#pins.get(key)
    if (pin === undefined) return undefined
    pin.usedAtMs = this.#nowMs()
    this.#pins.delete(key)
    this.#pins.set(key, pin)
    if (pin.usedAtMs - pin.writtenAtMs > USE_STEP_MS) this.#write(key, pin)
    return pin.sandboxId
  }

  pin(session: string, sandboxId: SandboxId): void {
    const key = keyOf(session)
    if (this.#pins.get(key)?.sandboxId === sandboxId) return
    const usedAtMs = this.#nowMs()
    const pin = { sandboxId, usedAtMs, writtenAtMs: usedAtMs }
    this.#pins.delete(key)
    this.#pins.set(key, pin)
    this.#write(key, pin)
    for (const old of this.#pins.keys()) {
      if (this.#pins.size <= SESSIONS_MAX) break
      this.#pins.delete(old)
      this.#db
        .prepare<[string, string]>('DELETE FROM service_sessions WHERE service_id = ? AND session = ?')
        .run(this.#serviceId, old)
    }
  }

  /** When a session of this replica was last used. */
  lastUseOf(sandboxId: SandboxId): number | undefined {
    let last: number | undefined
    for (const pin of this.#pins.values())
      if (pin.sandboxId === sandboxId) last = Math.max(last ?? 0, pin.usedAtMs)
    return last
  }

  /** Pre: the rows of the replica are deleted. */
  forgetReplica(sandboxId: SandboxId): void {
    for (const [key, pin] of this.#pins) if (pin.sandboxId === sandboxId) this.#pins.delete(key)
  }

  /** A session that is not on disk yet is found again by its client: losing it in a power cut costs a new session. */
  #write(key: string, pin: Pin): void {
    pin.writtenAtMs = pin.usedAtMs
    this.#db.transactionWithoutSync(() =>
      this.#db
        .prepare<[string, string, string, number]>(
          'INSERT OR REPLACE INTO service_sessions (service_id, session, sandbox_id, used_at) VALUES (?, ?, ?, ?)',
        )
        .run(this.#serviceId, key, pin.sandboxId, pin.usedAtMs),
    )
  }
}

/** The id of a session opens it, so the database has only its digest. */
function keyOf(session: string): string {
  return createHash('sha256').update(session).digest('base64url')
}
