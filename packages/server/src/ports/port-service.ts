import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { Access } from '../access/access.ts'
import { keyOfLink, readLink, signLink } from './link-token.ts'
import type { PortRows } from './port-rows.ts'

export interface PortServiceOptions {
  readonly rows: PortRows
  readonly access: Pick<Access, 'find'>
  /** The domain below which ports have host names. */
  readonly domain: string | undefined
  /** An idle connection counts as work for this long. */
  readonly idleConnectionMs: number
  readonly now: () => number
}

/** A valid link to a port. */
export interface OpenLink {
  readonly keyId: string
  readonly expiresAtMs: number
  /** Aborted when the key that made it is revoked. */
  readonly revoked: AbortSignal
}

/** More public ports than any preview needs. */
const PUBLIC_PORTS_MAX = 256

/** Decides who may reach which port. */
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

  /** The key that a link says it was created with. Not checked: `check` does that. */
  keyIn(token: string): string | undefined {
    return keyOfLink(token)
  }

  /** Returns undefined when the link does not open this port now. A link ends with the key that created it. */
  check(token: string, { sandboxId, port }: { sandboxId: SandboxId; port: number }): OpenLink | undefined {
    const { now, access } = this.#options
    const claim = readLink(this.#secret, token, { sandboxId, port, nowMs: now() })
    const key = claim === undefined ? undefined : access.find(claim.keyId)
    if (claim === undefined || key === undefined) return undefined
    return { keyId: key.keyId, expiresAtMs: claim.expiresAtMs, revoked: key.revoked }
  }
}
