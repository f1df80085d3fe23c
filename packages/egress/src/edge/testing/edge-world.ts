import { once } from 'node:events'
import type { ClientRequest, IncomingMessage, RequestListener } from 'node:http'
import {
  type Server as HttpsServer,
  createServer as httpsServer,
  type RequestOptions,
  request,
} from 'node:https'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { type TLSSocket, connect as tlsConnect } from 'node:tls'
import type { InterceptedDestination } from '../../gate/interceptor.ts'
import type { EdgeSecret } from '../../policy/egress-policy.ts'
import { type CertificateAndKey, makeAuthority, makeLeaf } from '../certificate.ts'
import { Edge } from '../edge.ts'
import { HttpRelay } from '../http-relay.ts'

export const NAME = 'api.example.com'
export const SECRET: EdgeSecret = {
  placeholder: 'dormouse-secret-k3v9x2m4p7q8r5t6',
  value: 'sk-live-0123456789abcdef',
  domains: [NAME],
}

export interface WorldOptions {
  /** What the server outside is certified as; by an authority that the edge does not trust with `isStranger`. */
  readonly serverName?: string
  readonly isStranger?: boolean
  readonly secrets?: readonly EdgeSecret[]
  readonly connect?: () => Promise<Socket>
  readonly idleTimeoutMs?: number
}

/** A server, an edge, and a gate in front of it that reads the first message and gives it back, like the real gate. */
export class EdgeWorld implements AsyncDisposable {
  readonly inside: CertificateAndKey
  readonly outside: HttpsServer
  readonly #gate: Server
  readonly #sockets = new Set<Socket>()
  readonly #clients = new Set<Socket>()
  /** May be changed while connections last. */
  secrets: readonly EdgeSecret[]
  /** How often the server was dialled. */
  dials = 0
  /** As if the sandbox slept. */
  isParked = false
  /** How often bytes of the server arrived. */
  serverPieces = 0

  private constructor(handler: RequestListener, options: WorldOptions) {
    this.inside = makeAuthority(new Date())
    const root = makeAuthority(new Date())
    const { certificate: cert, key } = makeLeaf(options.serverName ?? NAME, root, new Date())
    this.outside = httpsServer({ cert, key }, handler)
    this.outside.on('connection', (socket) => this.#track(socket))
    this.secrets = options.secrets ?? [SECRET]
    const edge = new Edge({
      authority: this.inside,
      upstreamCa: options.isStranger === true ? undefined : root.certificate,
      relay: new HttpRelay({ idleTimeoutMs: options.idleTimeoutMs }),
    })
    const world = this
    this.#gate = createServer((client) => {
      this.#track(client)
      this.#clients.add(client)
      client.once('data', (first) => {
        client.pause()
        client.unshift(first)
        const to: InterceptedDestination = {
          ...{ name: NAME, port: 443 },
          get secrets() {
            return world.secrets
          },
          connect: options.connect ?? (() => this.#dial()),
          onServerBytes: () => {
            this.serverPieces += 1
          },
          isParked: () => this.isParked,
        }
        edge.take(client, to)
      })
    })
  }

  static async open(handler: RequestListener, options: WorldOptions = {}): Promise<EdgeWorld> {
    const world = new EdgeWorld(handler, options)
    world.outside.listen(0, '127.0.0.1')
    world.#gate.listen(0, '127.0.0.1')
    await Promise.all([once(world.outside, 'listening'), once(world.#gate, 'listening')])
    return world
  }

  get port(): number {
    return (this.#gate.address() as AddressInfo).port
  }

  /** A request of a program inside, that trusts only our authority. */
  async ask(options: RequestOptions & { body?: string | Buffer } = {}): Promise<Answer> {
    const { body, ...rest } = options
    const asked = request({ ...this.#where(), ...rest })
    asked.end(body)
    const [answer] = (await once(asked, 'response')) as [IncomingMessage]
    // It may have been answered before all of it was sent.
    asked.on('error', () => {})
    const pieces: Buffer[] = []
    for await (const piece of answer) pieces.push(piece)
    const { statusCode: status = 0, headers, trailers } = answer
    return { status, headers, trailers, text: Buffer.concat(pieces).toString() }
  }

  /** A connection that the test itself continues. */
  open(options: RequestOptions): ClientRequest {
    const asked = request({ ...this.#where(), ...options })
    // Some are destroyed by the test.
    asked.on('error', () => {})
    return asked
  }

  /** A connection of one who writes requests by hand. */
  async connect(): Promise<TLSSocket> {
    const socket = tlsConnect({ ...this.#where() })
    await once(socket, 'secureConnect')
    return socket
  }

  /** What comes back for these bytes until the end of the connection. */
  async send(text: string): Promise<string> {
    const socket = await this.connect()
    socket.on('error', () => {})
    socket.write(text, 'latin1')
    let received = ''
    for await (const piece of socket) received += piece.toString('latin1')
    return received
  }

  #where() {
    return {
      ...{ host: '127.0.0.1', port: this.port, servername: NAME, ca: this.inside.certificate },
      headers: { host: NAME },
      agent: false as const,
    }
  }

  async #dial(): Promise<Socket> {
    this.dials += 1
    const socket = connect((this.outside.address() as AddressInfo).port, '127.0.0.1')
    await once(socket, 'connect')
    return socket
  }

  /** As the gate does it when a policy changes. */
  endClients(): void {
    for (const client of this.#clients) client.resetAndDestroy()
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  /** Of client and server. */
  get openConnections(): number {
    return this.#sockets.size
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await Promise.all([this.outside, this.#gate].map((server) => new Promise((done) => server.close(done))))
  }
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly trailers: IncomingMessage['trailers']
  readonly text: string
}
