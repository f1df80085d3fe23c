import { createSecureContext, type SecureContext } from 'node:tls'
import { type CertificateAndKey, LEAF_LIFE_MS, makeLeaf } from './certificate.ts'

/** With a wildcard domain a sandbox can make up names without end. */
const LEAVES_MAX = 1000
/** A connection that starts now may last for days. */
const RENEW_MS = LEAF_LIFE_MS / 2

interface Leaf {
  readonly context: SecureContext
  readonly renewAt: number
}

/** The certificates that the edge presents: one per name, made on first use. */
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
    // Moves it to the end: the least recently used goes first.
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
