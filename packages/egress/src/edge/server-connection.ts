import { Agent } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect, type SecureContext, type TLSSocket } from 'node:tls'
import type { InterceptedDestination } from '../gate/interceptor.ts'
import { SERVER_HANDSHAKE_MS } from './limits.ts'
import { Refusal } from './refusal.ts'

type Connected = (error: Error | null, stream?: Duplex) => void

export interface ServerConnectionOptions {
  /** Rejects with a Refusal. */
  readonly dial: () => Promise<Duplex>
  /** Called when the server closes a connection. */
  readonly onEnd: () => void
}

/** The connection to the server for one client connection: one at a time, opened for the first request and reused. */
export class ServerConnection extends Agent {
  readonly #options: ServerConnectionOptions

  constructor(options: ServerConnectionOptions) {
    super({ keepAlive: true })
    this.#options = options
  }

  /** Node calls it for a request that finds no connection to reuse. */
  override createConnection(_options: unknown, done: Connected): undefined {
    this.#options.dial().then(
      (socket) => {
        socket.once('close', this.#options.onEnd)
        done(null, socket)
      },
      (error: Error) => done(error),
    )
  }
}

export async function dialPlain(to: InterceptedDestination): Promise<Socket> {
  try {
    const socket = await to.connect()
    // A server that ended its half has no response to another request.
    socket.allowHalfOpen = false
    return socket
  } catch {
    // The denial has the reason, for those who may see it. The sandbox gets the same answer in all cases.
    throw new Refusal('unreachable', `${to.name} cannot be reached on port ${to.port}. Nothing was sent.`)
  }
}

/** Resolves after the server's certificate was verified. */
export async function dialVerified(to: InterceptedDestination, trust: SecureContext): Promise<TLSSocket> {
  return verified(await dialPlain(to), to, trust)
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
    // Stays: the receiver of the socket adds its listener later, and calling `fail` after that changes nothing.
    socket.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'it failed'))
    const onClose = () => fail('the server closed it')
    socket.once('close', onClose)
    socket.once('secureConnect', () => {
      clearTimeout(timer)
      socket.off('close', onClose)
      resolve(socket)
    })
  })
}
