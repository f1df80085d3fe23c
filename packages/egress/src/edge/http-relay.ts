import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { InterceptedDestination, Interceptor } from '../gate/interceptor.ts'
import { IDLE_TIMEOUT_MS } from '../limits.ts'
import { type ForwardTarget, forward, forwardUpgrade } from './forward.ts'
import { HEAD_MAX_BYTES, REQUESTS_WAITING_MAX } from './limits.ts'
import { Refusal, refuse } from './refusal.ts'
import { dialPlain, ServerConnection } from './server-connection.ts'

interface Client extends ForwardTarget {
  /** The first is in progress. Requests behind it were pipelined and start one after another. */
  readonly requests: (() => void)[]
}

/**
 * Reads every request of a connection and forwards it to the connection's server. Refuses requests for other hosts,
 * also on reused connections.
 */
export class HttpRelay implements Interceptor {
  readonly #clients = new WeakMap<Duplex, Client>()
  readonly #http: Server

  readonly #idleTimeoutMs: number

  constructor({ idleTimeoutMs = IDLE_TIMEOUT_MS }: { idleTimeoutMs?: number | undefined } = {}) {
    this.#idleTimeoutMs = idleTimeoutMs
    this.#http = this.#createServer()
  }

  /** Plain HTTP. */
  take(client: Socket, to: InterceptedDestination): void {
    this.serve(client, to, () => dialPlain(to))
    // Its first message paused it, and adding listeners does not resume it.
    client.resume()
  }

  /** Serves HTTP on `client`; `dial` connects to its server. Both end with `client`. */
  serve(client: Socket, to: InterceptedDestination, dial: () => Promise<Duplex>): void {
    // Node adds a listener for each waiting request.
    client.setMaxListeners(2 * REQUESTS_WAITING_MAX)
    const agent = new ServerConnection({ dial, onEnd: () => this.#followServer(client) })
    this.#clients.set(client, { to, agent, requests: [] })
    client.once('close', () => agent.destroy())
    client.on('error', () => client.destroy())
    client.setTimeout(this.#idleTimeoutMs)
    client.on('timeout', () => {
      if (to.isParked?.() === true) client.setTimeout(this.#idleTimeoutMs)
      else client.destroy()
    })
    this.#http.emit('connection', client)
  }

  #createServer(): Server {
    const server = createServer({
      maxHeaderSize: HEAD_MAX_BYTES,
      insecureHTTPParser: false,
      requireHostHeader: false,
      // The real server closes idle connections by itself.
      keepAliveTimeout: 0,
      requestTimeout: 0,
    })
    // No limit on the number of headers: Node drops the rest silently, and that may hold the body's length.
    // `maxHeaderSize` bounds them.
    server.maxHeadersCount = 0
    // A client times out in `serve`. Without a listener, Node would end a client that is parked.
    server.timeout = 0
    server.on('timeout', () => {})
    // A client that ended its half may still wait for the response.
    Object.assign(server, { httpAllowHalfOpen: true })
    const take = (request: IncomingMessage, response: ServerResponse) => {
      const client = this.#clientOf(request)
      const begin = () => forward(request, response, client)
      response.once('close', () => {
        client.to.onAnswered?.()
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
      refuse(response, new Refusal('method_not_allowed', 'CONNECT is not supported.'))
    })
    return server
  }

  #clientOf({ socket }: IncomingMessage): Client {
    const client = this.#clients.get(socket)
    if (client === undefined) throw new Error('A request came over a connection that was never taken.')
    return client
  }

  /** Closes a client without pending requests when the server closes, as it would be without the relay. */
  #followServer(client: Duplex): void {
    if (this.#clients.get(client)?.requests.length === 0) client.end()
  }
}
