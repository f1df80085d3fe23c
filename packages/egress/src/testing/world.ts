import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { CounterCells } from '../gate/counter-cells.ts'
import type { Denial } from '../gate/denial-collector.ts'
import type { AskedDestination } from '../gate/gate-connection.ts'
import type { EgressPolicy } from '../policy/egress-policy.ts'
import type { FailedLookup } from '../worker/egress-listeners.ts'
import type { EgressOptions } from '../worker/egress-options.ts'
import { GateWorker } from '../worker/gate-worker.ts'
import { type Asked, DnsServer, question, type Say } from './dns-server.ts'

export const OPEN: EgressPolicy = { mode: 'public', allow: [], secrets: [] }
export const CLOSED: EgressPolicy = { mode: 'none', allow: [], secrets: [] }

let nextGate = 0
let nextLocalPort = 0

const QUARTERS = ['first', 'second', 'third', 'fourth']

/** Each gate can be taken once, so each file has its own: 32 of 128. */
export function useGates(quarter: 'first' | 'second' | 'third' | 'fourth'): void {
  nextGate = 32 * QUARTERS.indexOf(quarter)
  // Below those that the kernel gives out by itself.
  nextLocalPort = 10_000 + 4_000 * QUARTERS.indexOf(quarter)
}

/** A gate, servers in the internet behind it, and clients in front of it. */
export class World {
  readonly denials: Denial[] = []
  readonly failedLookups: FailedLookup[] = []
  readonly counters = new CounterCells()
  readonly gateWorker: GateWorker
  readonly names: DnsServer
  readonly #gate = nextGate++
  readonly #asked = new Map<number, AskedDestination>()
  readonly #servers: Server[] = []

  private constructor(names: DnsServer, options: EgressOptions) {
    this.names = names
    this.gateWorker = new GateWorker(
      { resolvers: [names.address], ...options },
      {
        onDenial: (denial) => this.denials.push(denial),
        onFailedLookup: (failed) => this.failedLookups.push(failed),
        onDataAsleep: () => {},
        onLost: () => {},
      },
      (client) => this.#asked.get(client.remotePort ?? 0),
    )
  }

  static async open(
    policy: EgressPolicy,
    options: EgressOptions = {},
    say?: (asked: Asked) => Say,
  ): Promise<World> {
    const names = await DnsServer.start(say ?? (() => ({ rcode: 3 })))
    const world = new World(names, options)
    await world.gateWorker.attach({
      sandboxId: 'one',
      descriptors: { tcp: 500 + 2 * world.#gate, dns: 501 + 2 * world.#gate },
      policy,
      counters: world.counters.memory,
      taken: new SharedArrayBuffer(4),
    })
    return world
  }

  async serve(address: string, port: number, onConnection: (socket: Socket) => void): Promise<Server> {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {})
      onConnection(socket)
    })
    this.#servers.push(server)
    server.listen(port, address)
    await once(server, 'listening')
    return server
  }

  connect(address: string, port: number): Socket {
    const localPort = nextLocalPort++
    this.#asked.set(localPort, { address, port })
    const socket = connect({ host: '127.0.0.1', port: 30_000 + this.#gate, localPort, allowHalfOpen: true })
    socket.on('error', () => {})
    return socket
  }

  /** Sends something, and says what came back until the end: text, or `reset`. */
  async exchange(address: string, port: number, text: string | Buffer): Promise<string> {
    const socket = this.connect(address, port)
    socket.end(text)
    return outcome(socket)
  }

  /** As a program inside would look a name up. */
  async lookUp(name: string, type = 'A'): Promise<Buffer> {
    const bytes = question(name, type)
    const socket = this.connect('8.8.8.8', 53)
    socket.write(Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]))
    const [answer] = (await once(socket, 'data')) as [Buffer]
    socket.destroy()
    return answer.subarray(2)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.gateWorker.close()
    for (const server of this.#servers) server.close()
    await this.names.close()
  }
}

/** Speaks HTTP; `seen` has `host path` of each request. */
export function http(seen: string[]): (socket: Duplex) => void {
  const server = createHttpServer({ requireHostHeader: false }, ({ url, headers }, response) => {
    seen.push(`${headers.host} ${url}`)
    response.end(`hello from ${headers.host}\n`)
  })
  return (socket) => server.emit('connection', socket)
}

export function outcome(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  return new Promise((resolve) => {
    socket.on('data', (chunk) => chunks.push(chunk))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code === 'ECONNRESET' ? 'reset' : String(error.code)),
    )
    socket.once('end', () => resolve(Buffer.concat(chunks).toString('latin1')))
  })
}

export function echo(socket: Socket): void {
  socket.pipe(socket)
}
