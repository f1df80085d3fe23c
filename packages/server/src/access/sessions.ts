import { createHash, randomBytes } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import type { Access, AuthenticatedKey } from './access.ts'
import type { SessionRows } from './session-rows.ts'

/** A browser that was closed for a weekend is still signed in. */
const SESSION_MS = 7 * 86_400_000
const SESSIONS_PER_KEY = 100
/** A link is opened by the program that asked for it, at once. */
const LINK_MS = 60_000
const LINKS_MAX = 1000
const TOKEN_BYTES = 32
const CODE_BYTES = 16

export interface Session {
  readonly key: AuthenticatedKey
  readonly expiresAtMs: number
}

export interface SessionDependencies {
  readonly rows: SessionRows
  readonly access: Pick<Access, 'authenticate' | 'find'>
  readonly nowMs: () => number
}

/**
 * Sign-ins of the page: a browser exchanges an API key, or the code of a link, for a random token in a cookie. A
 * session ends with its key, and has the scopes of its key.
 */
export class Sessions {
  readonly #deps: SessionDependencies
  /** In memory only: a link is void after a restart. */
  readonly #links = new Map<string, { readonly keyId: string; readonly expiresAtMs: number }>()

  constructor(deps: SessionDependencies) {
    this.#deps = deps
  }

  /** The key as in an `Authorization` header. Throws `unauthorized`. */
  signInWithKey(apiKey: string): Session & { readonly token: string } {
    return this.#open(this.#deps.access.authenticate(`Bearer ${apiKey}`))
  }

  /** A code works once. Throws `unauthorized`. */
  signInWithCode(code: string): Session & { readonly token: string } {
    const { access, nowMs } = this.#deps
    const digest = digestOf(code).toString('base64')
    const link = this.#links.get(digest)
    this.#links.delete(digest)
    const key = link !== undefined && link.expiresAtMs > nowMs() ? access.find(link.keyId) : undefined
    if (key === undefined) {
      throw new DormouseError('unauthorized', 'This sign-in link was used before, or has expired.', {
        hint: 'Get a new one with `dormouse open`.',
      })
    }
    return this.#open(key)
  }

  /** A code that signs in once, with the scopes of this key. */
  createLink({ keyId }: Pick<AuthenticatedKey, 'keyId'>): { code: string; expiresAtMs: number } {
    const now = this.#deps.nowMs()
    for (const [digest, { expiresAtMs }] of this.#links)
      if (expiresAtMs <= now || this.#links.size >= LINKS_MAX) this.#links.delete(digest)
    const code = randomBytes(CODE_BYTES).toString('base64url')
    const expiresAtMs = now + LINK_MS
    this.#links.set(digestOf(code).toString('base64'), { keyId, expiresAtMs })
    return { code, expiresAtMs }
  }

  find(token: string): Session | undefined {
    const { rows, access, nowMs } = this.#deps
    const row = rows.find(digestOf(token))
    if (row === undefined || row.expiresAtMs <= nowMs()) return undefined
    const key = access.find(row.keyId)
    return key && { key, expiresAtMs: row.expiresAtMs }
  }

  end(token: string): void {
    this.#deps.rows.delete(digestOf(token))
  }

  #open(key: AuthenticatedKey): Session & { readonly token: string } {
    const { rows, nowMs } = this.#deps
    const token = randomBytes(TOKEN_BYTES).toString('base64url')
    const now = nowMs()
    const expiresAtMs = now + SESSION_MS
    rows.add(digestOf(token), { keyId: key.keyId, expiresAtMs })
    rows.prune(key.keyId, { kept: SESSIONS_PER_KEY, nowMs: now })
    return { key, expiresAtMs, token }
  }
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
