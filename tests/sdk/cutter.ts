import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { ServerProcess } from '../server/server-process.ts'

/**
 * A proxy that breaks connections: on demand, or each after a number of bytes of the answer. Finds a
 * restarted server again.
 */
export class Cutter {
  readonly #server: ServerProcess
  readonly #listener: Server
  readonly #open = new Set<Socket>()
  /** After how many bytes of its answer the connection of a request breaks; undefined: never. */
  nextCutBytes: () => number | undefined = () => undefined
  cuts = 0

  private constructor(server: ServerProcess) {
    this.#server = server
    this.#listener = createServer((client) => this.#pass(client))
  }

  static async start(server: ServerProcess): Promise<Cutter> {
    const cutter = new Cutter(server)
    cutter.#listener.listen(0, '127.0.0.1')
    await once(cutter.#listener, 'listening')
    return cutter
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.#open) this.#break(socket)
  }

  async stop(): Promise<void> {
    for (const socket of this.#open) socket.destroy()
    this.#listener.close()
    await once(this.#listener, 'close')
  }

  #pass(client: Socket): void {
    const upstream = connect(Number(new URL(this.#server.url).port), '127.0.0.1')
    this.#open.add(client)
    let left: number | undefined
    upstream.on('data', (data) => {
      if (left !== undefined && data.length >= left) {
        const part = data.subarray(0, left)
        left = undefined
        client.write(part, () => this.#break(client))
        return
      }
      if (left !== undefined) left -= data.length
      client.write(data)
    })
    client.on('data', (data) => {
      left ??= this.nextCutBytes()
      upstream.write(data)
    })
    const end = () => {
      client.destroy()
      upstream.destroy()
      this.#open.delete(client)
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
  }

  #break(client: Socket): void {
    this.cuts += 1
    client.resetAndDestroy()
  }
}
