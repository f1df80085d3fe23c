import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls'
import type { InterceptedDestination, Interceptor } from '../gate/interceptor.ts'
import { IDLE_TIMEOUT_MS } from '../limits.ts'
import type { Certified } from './certificate.ts'
import { forward, forwardUpgrade, type Way } from './forward.ts'
import { LeafCertificates } from './leaf-certificates.ts'
import { CLIENT_HANDSHAKE_MS, HEAD_MAX_BYTES, REQUESTS_WAITING_MAX } from './limits.ts'
import { Refusal, refuse } from './refusal.ts'
import { ServerConnection } from './server-connection.ts'
import { trustedRoots } from './trusted-roots.ts'

export interface EdgeOptions {
  /** What sandboxes with secrets trust. */
  readonly authority: Certified
  /** Roots that servers may have beside those of the host, PEM. */
  readonly upstreamCa?: string | undefined
}

interface Client extends Way {
  /** The first one is under way; those behind it were sent without waiting for its answer, and begin one after another. */
  readonly requests: (() => void)[]
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
  readonly #clients = new WeakMap<Duplex, Client>()
  readonly #http: Server

  constructor({ authority, upstreamCa }: EdgeOptions) {
    this.#leaves = new LeafCertificates(authority)
    this.#trust = createSecureContext({ ca: trustedRoots(upstreamCa), minVersion: 'TLSv1.2' })
    this.#http = this.#createServer()
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
    // Node listens for its end once for each request that waits.
    secure.setMaxListeners(2 * REQUESTS_WAITING_MAX)
    const slow = setTimeout(() => secure.destroy(), CLIENT_HANDSHAKE_MS)
    secure.once('secure', () => clearTimeout(slow))
    const agent = new ServerConnection({ to, trust: this.#trust, onEnd: () => this.#followServer(secure) })
    this.#clients.set(secure, { to, agent, requests: [] })
    secure.once('close', () => {
      clearTimeout(slow)
      client.destroy()
      agent.destroy()
    })
    secure.on('error', () => secure.destroy())
    this.#http.emit('connection', secure)
  }

  #createServer(): Server {
    const server = createServer({
      maxHeaderSize: HEAD_MAX_BYTES,
      insecureHTTPParser: false,
      requireHostHeader: false,
      // The server outside says how long it waits for another request, and ends the connection by itself.
      keepAliveTimeout: 0,
      requestTimeout: 0,
    })
    // What is beyond a number would be left out silently, and it may be what says how long the body is. `maxHeaderSize` bounds them.
    server.maxHeadersCount = 0
    server.timeout = IDLE_TIMEOUT_MS
    const take = (request: IncomingMessage, response: ServerResponse) => {
      const client = this.#clientOf(request)
      const begin = () => forward(request, response, client)
      response.once('close', () => {
        client.requests.shift()
        client.requests[0]?.()
      })
      const waiting = client.requests.push(begin)
      if (waiting === 1) begin()
      else if (waiting > REQUESTS_WAITING_MAX) request.socket.destroy()
    }
    server.on('request', take)
    server.on('checkContinue', take)
    server.on('upgrade', (request, socket, early) => {
      const client = this.#clientOf(request)
      const begin = () => forwardUpgrade(request, socket, early, client)
      if (client.requests.push(begin) === 1) begin()
    })
    server.on('connect', (request, socket) => {
      const response = new ServerResponse(request)
      response.assignSocket(socket as Socket)
      response.once('finish', () => socket.end())
      refuse(response, new Refusal('method_not_allowed', 'CONNECT is not passed on.'))
    })
    return server
  }

  #clientOf({ socket }: IncomingMessage): Client {
    const client = this.#clients.get(socket)
    if (client === undefined) throw new Error('A request came over a connection that was never taken.')
    return client
  }

  /** A client that has no answer to wait for learns at once that the server has gone, as it would without us. */
  #followServer(secure: TLSSocket): void {
    if (this.#clients.get(secure)?.requests.length === 0) secure.end()
  }
}
