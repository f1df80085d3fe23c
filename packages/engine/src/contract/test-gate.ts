import dgram from 'node:dgram'
import { createServer, type Server, type Socket } from 'node:net'
import type { Burrow } from '../engine.ts'
import type { Gate } from '../gate.ts'

/** Python for tests: `dial` connects, and returns the name of the error if it fails. */
export const NETWORK_HELPERS = `
import errno, socket
def dial(address, port, timeout=5):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET); s.settimeout(timeout)
    s.connect((address, port))
    return s
def outcome(work):
    try: return work()
    except OSError as error: return errno.errorcode.get(error.errno, type(error).__name__)`

/** A gate that records what arrives. */
export class TestGate implements AsyncDisposable {
  readonly arrived: string[] = []
  readonly connections: Socket[] = []
  readonly #gate: Gate
  readonly #server: Server
  readonly #dns = dgram.createSocket('udp4')

  constructor(gate: Gate, onConnection: (socket: Socket) => void) {
    this.#gate = gate
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      this.arrived.push(`${socket.localAddress} ${socket.localPort}`)
      this.connections.push(socket)
      socket.on('error', () => {})
      onConnection(socket)
    })
    this.#server.listen({ fd: gate.tcp })
    this.#dns.bind({ fd: gate.dns })
    this.#dns.on('message', (message, { port, address }) => {
      this.#dns.send(`answer to ${message}`, port, address)
    })
  }

  static async at(burrow: Burrow, onConnection: (socket: Socket) => void = greet): Promise<TestGate> {
    return new TestGate(await burrow.openGate(), onConnection)
  }

  closeGate(): void {
    this.#gate.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return
    this.#gate.close()
    this.#dns.close()
    for (const socket of this.connections) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

function greet(socket: Socket): void {
  socket.end('hello')
}
