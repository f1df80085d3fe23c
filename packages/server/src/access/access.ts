import type { RateLimit } from '@dormouse/async'
import type { KeyQuotas } from './quotas.ts'

/**
 * `read` may look, `run` may also create, change and delete its own sandboxes, `admin` may also manage keys and see all
 * sandboxes. Each includes the ones before it: a key that may run code in a sandbox can read it anyway.
 */
export const SCOPES = ['read', 'run', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** What the server knows of the key of a request. Never the secret. */
export interface AuthenticatedKey {
  readonly keyId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly isAdmin: boolean
  readonly quotas: KeyQuotas
  /** Aborted when the key is revoked: ends its streams. */
  readonly revoked: AbortSignal
}

export interface KeyView {
  readonly id: string
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly quotas: KeyQuotas
  /** Undefined: not limited. */
  readonly rateLimit: RateLimit | undefined
  /** ISO 8601. */
  readonly createdAt: string
  readonly revokedAt: string | undefined
}

export interface CreateKey {
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly quotas?: KeyQuotas | undefined
  readonly rateLimit?: RateLimit | undefined
}

/** Null removes a quota or rate limit; undefined keeps it. */
export interface UpdateKey {
  readonly name?: string | undefined
  readonly quotas?: { readonly [Name in keyof KeyQuotas]?: number | null | undefined } | undefined
  readonly rateLimit?: RateLimit | null | undefined
}

export interface CreatedKey {
  readonly view: KeyView
  /** The whole key, `dm_<id>_<secret>`. Returned only here. */
  readonly key: string
}

export interface Access {
  /** Reads the `Authorization` header. Throws `unauthorized`, with the same message whatever is wrong with the key. */
  authenticate(authorization: string | undefined): AuthenticatedKey
  /** The key as requests see it. Undefined when it does not exist or is revoked. */
  find(id: string): AuthenticatedKey | undefined
  /** Counts one request. Throws `rate_limited` with `details.retryAfterMs`. */
  checkRate(key: AuthenticatedKey): void
  /** Post: the key is on disk. */
  create(request: CreateKey): CreatedKey
  /** Oldest first, including revoked keys. */
  list(): readonly KeyView[]
  /** Throws `not_found`. */
  get(id: string): KeyView
  /** Applies from the next request on. Throws `not_found`, and `conflict` for a revoked key. */
  update(id: string, change: UpdateKey): KeyView
  /**
   * Applies from the next request on, and ends the key's streams. Its sandboxes stay. Revoking twice is fine. Throws
   * `not_found`, and `conflict` for the last admin key: without it no key could be created.
   */
  revoke(id: string): KeyView
}

export function hasScope({ scopes }: Pick<AuthenticatedKey, 'scopes'>, wanted: Scope): boolean {
  return scopes.some((scope) => SCOPES.indexOf(scope) >= SCOPES.indexOf(wanted))
}
