import { createSecureContext, type SecureContext } from 'node:tls'
import { type CertificateAndKey, LEAF_LIFE_MS, makeLeaf } from './certificate.ts'

/** A wildcard lets a sandbox think of names without end. */
const LEAVES_MAX = 1000
/** A connection that begins now may last for days. */
const RENEW_MS = LEAF_LIFE_MS / 2

interface Leaf {
  readonly context: SecureContext
  readonly renewAt: number
}

/** What the edge shows to clients: a certificate for each name, made when it is first asked for. */
export class LeafCertificates {
  readonly #authority: CertificateAndKey
  readonly #now: () => number
  readonly #leaves = new Map<string, Leaf>()

  constructor(authority: CertificateAndKey, now: () => number = Date.now) {
    this.#authority = authority
    this.#now = now
  }

  get(name: string): SecureContext {
    const now = this.#now()
    const known = this.#leaves.get(name)
    this.#leaves.delete(name)
    const leaf = known !== undefined && now < known.renewAt ? known : this.#make(name, now)
    // The one that was used last is the last to go.
    this.#leaves.set(name, leaf)
    for (const oldest of this.#leaves.keys()) {
      if (this.#leaves.size <= LEAVES_MAX) break
      this.#leaves.delete(oldest)
    }
    return leaf.context
  }

  #make(name: string, now: number): Leaf {
    const { certificate, key } = makeLeaf(name, this.#authority, new Date(now))
    const context = createSecureContext({ cert: certificate, key, minVersion: 'TLSv1.2' })
    return { context, renewAt: now + RENEW_MS }
  }
}
