import type { Socket as UdpSocket } from 'node:dgram'
import { createServer, type Server, type Socket } from 'node:net'
import { GATE_BACKLOG } from '../limits.ts'
import { serveTcp } from '../names/serve-tcp.ts'
import { serveUdp } from '../names/serve-udp.ts'
import { canonicalAddress } from '../policy/address.ts'
import { type AskedDestination, GateConnection } from './gate-connection.ts'
import type { GateClient, GateConnections } from './gate-connections.ts'
import type { GateContext } from './gate-context.ts'
import { reset } from './reset.ts'

/** Descriptors of a listening TCP socket and a bound UDP socket, both inside a burrow. */
export interface GateDescriptors {
  readonly tcp: number
  readonly dns: number
}

export interface GateOptions {
  readonly context: GateContext
  /** Of the sandbox. Those that arrive are added. */
  readonly connections: GateConnections
  readonly answer: (packet: Buffer, transport: 'udp' | 'tcp') => Promise<Buffer | undefined>
  /**
   * Takes a slot for one more connection. Returns a function that releases the slot, or the reason why there is none.
   * `evict` must end the connection.
   */
  readonly takeSlot: (evict: (reason: string) => void) => (() => void) | string
  /** The destination that the client asked for: the local end of the connection. Tests replace this. */
  readonly destinationOf?: (client: Socket) => AskedDestination | undefined
}

const DNS_PORT = 53

/** The server's sockets inside one burrow. */
export class Gate {
  readonly #options: GateOptions
  readonly #server: Server
  #dns: UdpSocket | undefined
  #isClosed = false

  private constructor(options: GateOptions) {
    this.#options = options
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true }, (client) =>
      this.#accept(client),
    )
    // When an accept fails for lack of descriptors, only that connection is lost.
    this.#server.on('error', () => {})
  }

  /** Owns the descriptors from here on. When it rejects, the descriptors that it could take are closed. */
  static async open({ tcp, dns }: GateDescriptors, options: GateOptions): Promise<Gate> {
    const gate = new Gate(options)
    // Takes both even if one fails: only a descriptor that was taken can be closed.
    const answer = (packet: Buffer) => options.answer(packet, 'udp')
    const [names, connections] = await Promise.allSettled([serveUdp(dns, answer), gate.#listen(tcp)])
    if (names.status === 'fulfilled') gate.#dns = names.value
    const failed = [names, connections].find((outcome) => outcome.status === 'rejected')
    if (failed === undefined) return gate
    await gate.close()
    throw failed.reason
  }

  /** Resolves when both sockets are closed and every connection has ended, except those that are parked. */
  async close(): Promise<void> {
    this.#isClosed = true
    const lost = this.#options.connections.leaveBurrow()
    if (lost.length > 0) this.#options.context.onLost(lost)
    const dns = this.#dns
    this.#dns = undefined
    // Closes the listener at once; its callback would wait for connections that are parked.
    this.#server.close(() => {})
    if (dns !== undefined) await new Promise<void>((resolve) => dns.close(resolve))
  }

  #listen(fd: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      // Throws when the descriptor is not a socket.
      this.#server.listen({ fd, backlog: GATE_BACKLOG }, () => {
        this.#server.removeListener('error', reject)
        resolve()
      })
    })
  }

  #accept(client: Socket): void {
    const asked = (this.#options.destinationOf ?? localEndOf)(client)
    if (this.#isClosed || asked === undefined) {
      reset(client)
      return
    }
    const { context, connections } = this.#options
    const { onDenial } = context
    let connection: GateClient | undefined
    const release = this.#options.takeSlot((reason) => {
      onDenial({ ...asked, reason })
      connection?.end()
    })
    if (typeof release === 'string') {
      onDenial({ ...asked, reason: release })
      reset(client)
      return
    }
    // Every address answers DNS over TCP: programs with name servers of their own must not bypass this resolver.
    connection = asked.port === DNS_PORT ? this.#serveNames(client) : this.#open(client, asked)
    connections.add(connection, release)
    // After it is registered: a forbidden connection ends at once.
    void connection.open?.()
  }

  #open(client: Socket, asked: AskedDestination): GateClient {
    const { context, connections } = this.#options
    const connection = new GateConnection(client, asked, context, () => connections.remove(connection))
    return connection
  }

  #serveNames(client: Socket): GateClient {
    const connection = { end: () => reset(client) }
    client.once('close', () => this.#options.connections.remove(connection))
    serveTcp(client, (packet) => this.#options.answer(packet, 'tcp'))
    return connection
  }
}

function localEndOf(client: Socket): AskedDestination | undefined {
  const address = canonicalAddress(client.localAddress ?? '')
  return address === undefined || client.localPort === undefined
    ? undefined
    : { address, port: client.localPort }
}
