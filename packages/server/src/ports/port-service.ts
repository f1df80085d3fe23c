import { DormouseError, hasErrorCode, type SandboxId } from '@dormouse/contracts'
import type { Access } from '../access/access.ts'
import { type LinkClaim, readLink, signLink } from './link-token.ts'
import type { PortRows } from './port-rows.ts'

export interface PortServiceOptions {
  readonly rows: PortRows
  readonly access: Pick<Access, 'get'>
  /** Below which ports have host names. */
  readonly domain: string | undefined
  /** A connection that has carried nothing for so long is not work. */
  readonly idleConnectionMs: number
  readonly now: () => number
}

/** A sandbox that publishes more than these is not previewed but scanned. */
const PUBLIC_PORTS_MAX = 256

/** Who may reach which port. */
export class PortService {
  readonly #options: PortServiceOptions
  readonly #secret: Uint8Array

  constructor(options: PortServiceOptions) {
    this.#options = options
    this.#secret = options.rows.secret()
  }

  get domain(): string | undefined {
    return this.#options.domain
  }

  get idleConnectionMs(): number {
    return this.#options.idleConnectionMs
  }

  isPublic(sandboxId: SandboxId, port: number): boolean {
    return this.#options.rows.isPublic(sandboxId, port)
  }

  listPublic(sandboxId: SandboxId): readonly number[] {
    return this.#options.rows.listPublic(sandboxId)
  }

  setAccess(sandboxId: SandboxId, port: number, access: 'private' | 'public'): void {
    const { rows } = this.#options
    if (access === 'private') rows.withdraw(sandboxId, port)
    else {
      if (rows.listPublic(sandboxId).length >= PUBLIC_PORTS_MAX)
        throw new DormouseError('limit_reached', `A sandbox may have ${PUBLIC_PORTS_MAX} public ports.`)
      rows.publish(sandboxId, port)
    }
  }

  sign(link: { sandboxId: SandboxId; port: number; keyId: string; expiresInMs: number }): {
    token: string
    expiresAtMs: number
  } {
    const expiresAtMs = this.#options.now() + link.expiresInMs
    return { token: signLink(this.#secret, { ...link, expiresAtMs }), expiresAtMs }
  }

  /** Undefined when it does not open this port now. A link ends with the key that made it. */
  check(token: string, { sandboxId, port }: { sandboxId: SandboxId; port: number }): LinkClaim | undefined {
    const { now } = this.#options
    const claim = readLink(this.#secret, token, { sandboxId, port, nowMs: now() })
    return claim !== undefined && this.#isLive(claim.keyId) ? claim : undefined
  }

  #isLive(keyId: string): boolean {
    try {
      return this.#options.access.get(keyId).revokedAt === undefined
    } catch (error) {
      if (hasErrorCode(error, 'not_found')) return false
      throw error
    }
  }
}
