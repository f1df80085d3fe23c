import type { Socket as UdpSocket } from 'node:dgram'
import { createServer, type Server, type Socket } from 'node:net'
import { GATE_BACKLOG } from '../limits.ts'
import { serveTcp } from '../names/serve-tcp.ts'
import { serveUdp } from '../names/serve-udp.ts'
import { canonicalAddress } from '../policy/address.ts'
import type { CompiledPolicy } from '../policy/compiled-policy.ts'
import { type AskedDestination, GateConnection } from './gate-connection.ts'
import type { GateContext } from './gate-context.ts'
import { reset } from './reset.ts'

/** Descriptors of a listening socket and of a bound datagram socket, both inside a burrow. */
export interface GateDescriptors {
  readonly tcp: number
  readonly dns: number
}

export interface GateOptions {
  readonly context: GateContext
  readonly answer: (packet: Buffer, transport: 'udp' | 'tcp') => Promise<Buffer | undefined>
  /** Takes a place for one more connection, and returns how to give it back; or says why there is none. `evict` must end it. */
  readonly takeSlot: (evict: (reason: string) => void) => (() => void) | string
  /** The kernel keeps it as the local end of the connection. Tests have no such kernel. */
  readonly destinationOf?: (client: Socket) => AskedDestination | undefined
}

const DNS_PORT = 53

interface GateClient {
  open?(): Promise<void>
  end(): void
  recheck?: GateConnection['recheck']
}

/** Our sockets inside one burrow, and everything that came through them. */
export class Gate {
  readonly #options: GateOptions
  /** With how to give the place of each back. */
  readonly #connections = new Map<GateClient, () => void>()
  readonly #server: Server
  #dns: UdpSocket | undefined
  #isClosed = false

  private constructor(options: GateOptions) {
    this.#options = options
    this.#server = createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true }, (client) =>
      this.#accept(client),
    )
    // A failed accept, for want of descriptors, is one connection that does not come about.
    this.#server.on('error', () => {})
  }

  /** The descriptors belong to the gate from here on. When it rejects, those that could be taken are closed. */
  static async open({ tcp, dns }: GateDescriptors, options: GateOptions): Promise<Gate> {
    const gate = new Gate(options)
    // Both are taken whatever becomes of the other: only what is taken can be closed.
    const answer = (packet: Buffer) => options.answer(packet, 'udp')
    const [names, connections] = await Promise.allSettled([serveUdp(dns, answer), gate.#listen(tcp)])
    if (names.status === 'fulfilled') gate.#dns = names.value
    const failed = [names, connections].find((outcome) => outcome.status === 'rejected')
    if (failed === undefined) return gate
    await gate.close()
    throw failed.reason
  }

  recheck(policy: CompiledPolicy, haveSecretsChanged: boolean): void {
    for (const connection of this.#connections.keys()) connection.recheck?.(policy, haveSecretsChanged)
  }

  /** When it resolves, both sockets are closed and every connection has ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const connection of [...this.#connections.keys()]) connection.end()
    const dns = this.#dns
    this.#dns = undefined
    await Promise.all([
      new Promise<void>((resolve) => this.#server.close(() => resolve())),
      dns === undefined ? undefined : new Promise<void>((resolve) => dns.close(resolve)),
    ])
  }

  #listen(fd: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      // Throws where the descriptor is none of a socket.
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
    const { onDenial } = this.#options.context
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
    // Over TCP the resolver has every address: programs have name servers of their own in mind, and must not get past this one.
    connection = asked.port === DNS_PORT ? this.#serveNames(client) : this.#open(client, asked)
    this.#connections.set(connection, release)
    // Not before it is known here: what is not allowed ends at once.
    void connection.open?.()
  }

  #open(client: Socket, asked: AskedDestination): GateClient {
    const connection = new GateConnection(client, asked, this.#options.context, () =>
      this.#remove(connection),
    )
    return connection
  }

  #serveNames(client: Socket): GateClient {
    const connection = { end: () => reset(client) }
    client.once('close', () => this.#remove(connection))
    serveTcp(client, (packet) => this.#options.answer(packet, 'tcp'))
    return connection
  }

  #remove(connection: GateClient): void {
    const release = this.#connections.get(connection)
    this.#connections.delete(connection)
    release?.()
  }
}

function localEndOf(client: Socket): AskedDestination | undefined {
  const address = canonicalAddress(client.localAddress ?? '')
  return address === undefined || client.localPort === undefined
    ? undefined
    : { address, port: client.localPort }
}
