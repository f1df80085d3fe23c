import { setMaxListeners } from 'node:events'
import { isDeepStrictEqual } from 'node:util'
import { TokenBucket } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import { type Clock, hostClock } from '../clock/clock.ts'
import type { Database } from '../store/database.ts'
import {
  type Access,
  type AuthenticatedKey,
  type CreatedKey,
  type CreateKey,
  hasScope,
  type KeyView,
  SCOPES,
  type UpdateKey,
} from './access.ts'
import { digestKey, findKeyId, isSameDigest, newKey } from './key-format.ts'
import { type KeyRecord, KeyRows } from './key-rows.ts'

/** A valid key, cached so that requests need no database access. */
interface LiveKey {
  readonly digest: Uint8Array
  readonly authenticated: AuthenticatedKey
  readonly bucket: TokenBucket | undefined
  readonly revocation: AbortController
}

/** The wall clock for stored times, the monotonic clock for rate limits. */
type Clocks = Pick<Clock, 'wallMs' | 'monotonicMs'>

/** Compared with when the key does not exist, so that the answer takes as long. */
const NO_DIGEST = new Uint8Array(32)
/** More keys than are in use at once. A key that was forgotten is only hashed again. */
const RECENT_MAX = 256
/** A request that another host sends for one of its callers. */
const HOP = /^Dormouse-Hop +(?<token>\S+) *$/
const BEARER = /^Bearer +(?<key>\S+) *$/i

/** Keys in state.db. The rows are authoritative; all are cached in memory, and every change is written first. */
export class StoredAccess implements Access {
  readonly #rows: KeyRows
  readonly #clocks: Clocks
  readonly #records = new Map<string, KeyRecord>()
  readonly #live = new Map<string, LiveKey>()
  readonly #listeners = new Set<(record: KeyRecord) => void>()
  /** Says for which key another host of the cluster sends a request. Undefined outside a cluster. */
  verifyHop: ((token: string) => string | undefined) | undefined
  /** Headers that were valid since a key last changed: hashing takes as long as the rest of a short request. */
  readonly #recent = new Map<string, AuthenticatedKey>()

  constructor(database: Database, clocks: Clocks = hostClock) {
    this.#rows = new KeyRows(database)
    this.#clocks = clocks
    for (const record of this.#rows.all()) this.#hold(record)
  }

  authenticate(authorization: string | undefined): AuthenticatedKey {
    if (authorization === undefined) throw unauthorized('There is no API key in this request')
    const known = this.#recent.get(authorization)
    if (known !== undefined) return known
    const hop = HOP.exec(authorization)?.groups?.token
    if (hop !== undefined) return this.#authenticateHop(hop)
    const key = BEARER.exec(authorization)?.groups?.key ?? ''
    const live = this.#live.get(findKeyId(key) ?? '')
    if (!isSameDigest(digestKey(key), live?.digest ?? NO_DIGEST) || live === undefined) {
      throw unauthorized('The API key is not valid')
    }
    if (this.#recent.size >= RECENT_MAX) this.#recent.clear()
    this.#recent.set(authorization, live.authenticated)
    return live.authenticated
  }

  #authenticateHop(token: string): AuthenticatedKey {
    const key = this.find(this.verifyHop?.(token) ?? '')
    if (key === undefined) throw unauthorized('The API key is not valid')
    return key
  }

  find(id: string): AuthenticatedKey | undefined {
    return this.#live.get(id)?.authenticated
  }

  checkRate({ keyId, name }: AuthenticatedKey): void {
    const live = this.#live.get(keyId)
    // The key was revoked after it was authenticated.
    if (live === undefined) throw unauthorized('The API key is not valid')
    const retryAfterMs = live.bucket?.take() ?? 0
    if (retryAfterMs === 0) return
    throw new DormouseError('rate_limited', `The key "${name}" has sent too many requests`, {
      details: { retryAfterMs },
    })
  }

  create(request: CreateKey): CreatedKey {
    const { id, key } = newKey()
    return { view: this.adopt(id, key, request), key }
  }

  /** Stores a key that was created before, for one that must be in a file first. */
  adopt(id: string, key: string, { name, scopes, quotas, rateLimit }: CreateKey): KeyView {
    return this.#write({
      id,
      name,
      digest: digestKey(key),
      scopes: SCOPES.filter((scope) => scopes.includes(scope)),
      quotas: quotas ?? {},
      rateLimit,
      createdAtMs: this.#clocks.wallMs(),
      revokedAtMs: undefined,
    })
  }

  list(): readonly KeyView[] {
    return [...this.#records.values()].map(toView)
  }

  get(id: string): KeyView {
    return toView(this.#record(id))
  }

  update(id: string, { name, quotas = {}, rateLimit }: UpdateKey): KeyView {
    const record = this.#record(id)
    if (record.revokedAtMs !== undefined) throw new DormouseError('conflict', `The key ${id} is revoked`)
    const given = Object.entries(quotas).filter(([, value]) => value !== undefined)
    const changed = Object.fromEntries(given.map(([quota, value]) => [quota, value ?? undefined]))
    return this.#write({
      ...record,
      name: name ?? record.name,
      quotas: { ...record.quotas, ...changed },
      rateLimit: rateLimit === undefined ? record.rateLimit : (rateLimit ?? undefined),
    })
  }

  revoke(id: string): KeyView {
    const record = this.#record(id)
    if (record.revokedAtMs !== undefined) return toView(record)
    const admins = [...this.#live.values()].filter(({ authenticated }) => authenticated.isAdmin)
    if (admins.length === 1 && admins[0]?.authenticated.keyId === id) {
      throw new DormouseError('conflict', `The key ${id} is the last one with the scope "admin"`, {
        hint: 'Create another with `dormouse key create NAME --scope admin` first.',
      })
    }
    return this.#write({ ...record, revokedAtMs: this.#clocks.wallMs() })
  }

  /** With their digests, for the other hosts of a cluster. */
  records(): readonly KeyRecord[] {
    return [...this.#records.values()]
  }

  /** Takes over a key as another host has written it. A revoked key stays revoked. */
  accept(record: KeyRecord): void {
    const known = this.#records.get(record.id)
    if (known?.revokedAtMs !== undefined || isDeepStrictEqual(known && toView(known), toView(record))) return
    this.#rows.put(record)
    this.#hold(record)
  }

  /** `listener` hears of every key that is written here. Returns what ends that. */
  onWrite(listener: (record: KeyRecord) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #write(record: KeyRecord): KeyView {
    this.#rows.put(record)
    this.#hold(record)
    for (const listener of this.#listeners) listener(record)
    return toView(record)
  }

  #hold(record: KeyRecord): void {
    const { id, name, scopes, quotas, rateLimit, digest } = record
    this.#recent.clear()
    const before = this.#live.get(id)
    this.#records.set(id, record)
    if (record.revokedAtMs !== undefined) {
      this.#live.delete(id)
      before?.revocation.abort(unauthorized('The API key was revoked'))
      return
    }
    const revocation = before?.revocation ?? new AbortController()
    // Every open stream of the key adds a listener.
    setMaxListeners(0, revocation.signal)
    const isAdmin = hasScope({ scopes }, 'admin')
    this.#live.set(id, {
      digest,
      authenticated: { keyId: id, name, scopes, isAdmin, quotas, revoked: revocation.signal },
      bucket: rateLimit === undefined ? undefined : new TokenBucket(rateLimit, this.#clocks.monotonicMs),
      revocation,
    })
  }

  #record(id: string): KeyRecord {
    const record = this.#records.get(id)
    if (record === undefined) {
      throw new DormouseError('not_found', 'There is no such key', {
        hint: 'List them with `dormouse key list`.',
      })
    }
    return record
  }
}

function unauthorized(message: string): DormouseError {
  return new DormouseError('unauthorized', message)
}

function toView({ digest: _secret, createdAtMs, revokedAtMs, ...record }: KeyRecord): KeyView {
  return {
    ...record,
    createdAt: new Date(createdAtMs).toISOString(),
    revokedAt: revokedAtMs === undefined ? undefined : new Date(revokedAtMs).toISOString(),
  }
}
