import { Agent } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect, type SecureContext, type TLSSocket } from 'node:tls'
import type { InterceptedDestination } from '../gate/interceptor.ts'
import { SERVER_HANDSHAKE_MS } from './limits.ts'
import { Refusal } from './refusal.ts'

type Connected = (error: Error | null, stream?: Duplex) => void

export interface ServerConnectionOptions {
  readonly to: InterceptedDestination
  /** What the certificate of the server has to verify against. */
  readonly trust: SecureContext
  /** The server has ended a connection. */
  readonly onEnd: () => void
}

/**
 * The way of one client connection to its server: one connection at a time, made for the first request and used for the next ones.
 * A request is written only after the server's certificate was verified; otherwise it fails with a Refusal.
 */
export class ServerConnection extends Agent {
  readonly #options: ServerConnectionOptions

  constructor(options: ServerConnectionOptions) {
    super({ keepAlive: true })
    this.#options = options
  }

  /** Called by Node for a request that finds no connection to use again. */
  override createConnection(_options: unknown, done: Connected): undefined {
    this.#dial().then(
      (socket) => done(null, socket),
      (error: Error) => done(error),
    )
  }

  async #dial(): Promise<TLSSocket> {
    const { to, trust, onEnd } = this.#options
    let plain: Socket
    try {
      plain = await to.connect()
    } catch {
      // Why is in the egress events, for who may know; inside it is one answer for all.
      throw new Refusal('unreachable', `${to.name} cannot be reached on port ${to.port}. Nothing was sent.`)
    }
    const socket = await verified(plain, to, trust)
    socket.once('close', onEnd)
    return socket
  }
}

function verified(plain: Socket, { name }: InterceptedDestination, trust: SecureContext): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      socket: plain,
      servername: name,
      secureContext: trust,
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: true,
    })
    const fail = (reason: string) => {
      clearTimeout(timer)
      socket.destroy()
      plain.destroy()
      reject(new Refusal('unverified', `No verified TLS connection to ${name}: ${reason}. Nothing was sent.`))
    }
    const timer = setTimeout(() => fail('no answer in time'), SERVER_HANDSHAKE_MS)
    plain.on('error', () => plain.destroy())
    // Stays for good: who gets the socket listens a moment later, and calling `fail` then changes nothing any more.
    socket.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'it failed'))
    const onClose = () => fail('it was ended')
    socket.once('close', onClose)
    socket.once('secureConnect', () => {
      clearTimeout(timer)
      socket.off('close', onClose)
      resolve(socket)
    })
  })
}
