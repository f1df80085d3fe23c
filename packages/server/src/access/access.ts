import type { RateLimit } from '@dormouse/async'
import type { KeyQuotas } from './quotas.ts'

/**
 * `read` sees, `run` also creates, changes and deletes its own sandboxes, `admin` also manages keys and sees everybody's.
 * Each includes the ones before it: who may run code in a sandbox can read all of it anyway.
 */
export const SCOPES = ['read', 'run', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** What the rest of the server knows of the key that a request came with. Never the secret. */
export interface AuthenticatedKey {
  readonly keyId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly isAdmin: boolean
  readonly quotas: KeyQuotas
  /** Aborted when the key is revoked: what streams for long ends with it. */
  readonly revoked: AbortSignal
}

export interface KeyView {
  readonly id: string
  readonly name: string
  readonly scopes: readonly Scope[]
  readonly quotas: KeyQuotas
  /** None: not limited. */
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

/** A quota or a rate limit that is null is taken away; one that is absent stays. */
export interface UpdateKey {
  readonly name?: string | undefined
  readonly quotas?: { readonly [Name in keyof KeyQuotas]?: number | null | undefined } | undefined
  readonly rateLimit?: RateLimit | null | undefined
}

export interface CreatedKey {
  readonly view: KeyView
  /** The whole key, `dm_<id>_<secret>`. Only this answer ever has it. */
  readonly key: string
}

export interface Access {
  /** Of the `Authorization` header. Throws `unauthorized`, in the same words whatever is wrong with the key. */
  authenticate(authorization: string | undefined): AuthenticatedKey
  /** What a request with this key would be. Undefined: there is none, or it is revoked. */
  find(id: string): AuthenticatedKey | undefined
  /** Counts one request. Throws `rate_limited` with `details.retryAfterMs`. */
  checkRate(key: AuthenticatedKey): void
  /** On disk when it returns. */
  create(request: CreateKey): CreatedKey
  /** The oldest first, the revoked ones too. */
  list(): readonly KeyView[]
  /** Throws `not_found`. */
  get(id: string): KeyView
  /** Holds for the next request. Throws `not_found`, and `conflict` for a revoked key. */
  update(id: string, change: UpdateKey): KeyView
  /**
   * Holds for the next request, and ends the streams of the key. Its sandboxes stay. Again is fine.
   * Throws `not_found`, and `conflict` for the last key that is admin: nobody could make another.
   */
  revoke(id: string): KeyView
}

export function hasScope({ scopes }: Pick<AuthenticatedKey, 'scopes'>, wanted: Scope): boolean {
  return scopes.some((scope) => SCOPES.indexOf(scope) >= SCOPES.indexOf(wanted))
}
