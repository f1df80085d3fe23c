import type { Socket } from 'node:net'
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls'
import type { InterceptedDestination, Interceptor } from '../gate/interceptor.ts'
import type { CertificateAndKey } from './certificate.ts'
import { HttpRelay } from './http-relay.ts'
import { LeafCertificates } from './leaf-certificates.ts'
import { CLIENT_HANDSHAKE_MS } from './limits.ts'
import { dialVerified } from './server-connection.ts'
import { trustedRoots } from './trusted-roots.ts'

export interface EdgeOptions {
  /** The authority that sandboxes with secrets trust. */
  readonly authority: CertificateAndKey
  /** Roots to trust besides those of the host, PEM. */
  readonly upstreamCa?: string | undefined
  readonly relay?: HttpRelay
}

/** Checked because the name goes into a certificate. */
const HOST_NAME = /^[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?$/

/**
 * Terminates TLS as the requested server, puts secrets into request headers, and forwards the requests to the real
 * server after verifying its certificate.
 */
export class Edge implements Interceptor {
  readonly #leaves: LeafCertificates
  readonly #trust: SecureContext
  readonly #relay: HttpRelay

  constructor({ authority, upstreamCa, relay = new HttpRelay() }: EdgeOptions) {
    this.#leaves = new LeafCertificates(authority)
    this.#trust = createSecureContext({ ca: trustedRoots(upstreamCa), minVersion: 'TLSv1.2' })
    this.#relay = relay
  }

  take(client: Socket, to: InterceptedDestination): void {
    client.on('error', () => client.destroy())
    // Node resets the idle timer of the outer socket only, so this one would time out while in use.
    client.setTimeout(0)
    if (!HOST_NAME.test(to.name)) {
      client.destroy()
      return
    }
    const secure = new TLSSocket(client, {
      isServer: true,
      secureContext: this.#leaves.get(to.name),
      ALPNProtocols: ['http/1.1'],
    })
    const slow = setInterval(() => to.isParked?.() !== true && secure.destroy(), CLIENT_HANDSHAKE_MS)
    secure.once('secure', () => clearInterval(slow))
    secure.once('close', () => {
      clearInterval(slow)
      client.destroy()
    })
    this.#relay.serve(secure, to, () => dialVerified(to, this.#trust))
  }
}
