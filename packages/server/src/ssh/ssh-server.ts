import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import ssh2 from 'ssh2'
import { ALGORITHMS } from './algorithms.ts'
import { SshConnection } from './connection.ts'
import type { SshParts } from './connection-parts.ts'
import type { HostKey } from './host-key.ts'
import { CONNECTIONS_MAX, HANDSHAKE_MS, KEEP_ALIVE_COUNT, KEEP_ALIVE_MS } from './limits.ts'
import { type LoginAttempt, LoginLimiter } from './login-limiter.ts'

export interface SshServerOptions extends SshParts {
  readonly hostKey: HostKey
  readonly handshakeMs?: number
}

/** Accepts SSH connections. */
export class SshServer implements AsyncDisposable {
  readonly #options: SshServerOptions
  readonly #listener: Server
  readonly #loginLimiter = new LoginLimiter()
  readonly #sockets = new Set<Socket>()
  readonly #connections = new Set<SshConnection>()

  constructor(options: SshServerOptions) {
    this.#options = options
    this.#listener = createServer((socket) => this.#take(socket))
    this.#listener.maxConnections = CONNECTIONS_MAX
  }

  /** Returns the port it listens on. Throws the system's error, such as EADDRINUSE. */
  async listen({ host, port }: { host: string; port: number }): Promise<number> {
    this.#listener.listen({ host, port })
    await once(this.#listener, 'listening')
    return (this.#listener.address() as AddressInfo).port
  }

  /** Ends every connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    const closed = this.#listener.listening ? once(this.#listener, 'close') : undefined
    this.#listener.close()
    for (const connection of this.#connections) connection.end()
    for (const socket of this.#sockets) socket.destroySoon()
    await closed
  }

  #take(socket: Socket): void {
    const attempt = this.#loginLimiter.start(socket.remoteAddress ?? '')
    socket.on('error', () => socket.destroy())
    if (attempt === undefined) {
      socket.destroy()
      return
    }
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      attempt.end()
    })
    this.#greet(socket, attempt)
  }

  #greet(socket: Socket, attempt: LoginAttempt): void {
    const { hostKey, handshakeMs = HANDSHAKE_MS, ...parts } = this.#options
    const patience = setTimeout(() => socket.destroy(), handshakeMs)
    socket.once('close', () => clearTimeout(patience))
    // One ssh2 server per socket, so that each connection knows its socket.
    const server = new ssh2.Server(
      {
        hostKeys: [hostKey.privateKey],
        // Without a version: it would help attackers who search for old ones.
        ident: 'dormouse',
        algorithms: ALGORITHMS,
        keepaliveInterval: KEEP_ALIVE_MS,
        keepaliveCountMax: KEEP_ALIVE_COUNT,
      },
      (client) => {
        client.on('ready', () => clearTimeout(patience))
        const connection = new SshConnection({ client, socket, attempt, parts })
        this.#connections.add(connection)
        socket.once('close', () => this.#connections.delete(connection))
      },
    )
    server.injectSocket(socket)
  }
}
