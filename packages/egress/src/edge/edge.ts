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
  /** What sandboxes with secrets trust. */
  readonly authority: CertificateAndKey
  /** Roots that servers may have beside those of the host, PEM. */
  readonly upstreamCa?: string | undefined
  readonly relay?: HttpRelay
}

/** A certificate is made of it. */
const HOST_NAME = /^[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?$/

/**
 * Speaks HTTPS as the server that a client asked for, puts secrets into the headers of its requests, and passes them on to that server,
 * once it has shown who it is.
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
    // Node counts what passes on the outer socket only: on this one the time would run out while it is used.
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
    const slow = setTimeout(() => secure.destroy(), CLIENT_HANDSHAKE_MS)
    secure.once('secure', () => clearTimeout(slow))
    secure.once('close', () => {
      clearTimeout(slow)
      client.destroy()
    })
    this.#relay.serve(secure, to, () => dialVerified(to, this.#trust))
  }
}
