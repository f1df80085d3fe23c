import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

export interface NatsPlace {
  readonly args?: readonly string[]
  /** What starts it, with its command line behind. */
  readonly launcher?: readonly string[]
  readonly address?: string
  readonly port?: number
  /** Called with its directory before anything is in it. */
  readonly prepare?: (directory: string) => Promise<void>
}

/** Another version than the one of this machine, for runs of the model by hand. */
const PROGRAM = process.env['DORMOUSE_TEST_NATS'] ?? 'nats-server'
const COMPLAINTS_MAX = 40

/** A real NATS server with JetStream, on loopback unless it has another place, with a directory of its own. */
export class NatsServer {
  readonly url: string
  readonly port: number
  readonly #directory: string
  readonly #place: Required<Omit<NatsPlace, 'prepare'>>
  #child: ChildProcess | undefined
  /** The newest warnings and errors of its log. */
  readonly complaints: string[] = []

  private constructor(directory: string, place: Required<Omit<NatsPlace, 'prepare'>>) {
    this.port = place.port
    this.#place = place
    this.url = `${place.args.includes('--tls') ? 'tls' : 'nats'}://${place.address}:${place.port}`
    this.#directory = directory
  }

  static async start(place: NatsPlace = {}): Promise<NatsServer> {
    const { args = [], launcher = [], address = '127.0.0.1', port = await freePort(), prepare } = place
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-nats-'))
    await prepare?.(directory)
    const server = new NatsServer(directory, { args, launcher, address, port })
    await server.begin()
    return server
  }

  get pid(): number {
    return this.#child?.pid ?? -1
  }

  async begin(): Promise<void> {
    const { launcher, address, args } = this.#place
    const [command = '', ...all] = [
      ...launcher,
      ...[PROGRAM, '--addr', address, '--port', String(this.port)],
      ...['--jetstream', '--store_dir', this.#directory, ...args],
    ]
    const child = spawn(command, all, { stdio: ['ignore', 'ignore', 'pipe'] })
    this.#child = child
    const lines = createInterface({ input: child.stderr as Readable })
    const isReady = new Promise<void>((resolve) => {
      lines.on('line', (line) => {
        if (line.includes('Server is ready')) resolve()
        if (!/\[(WRN|ERR)\]/.test(line)) return
        this.complaints.push(line)
        if (this.complaints.length > COMPLAINTS_MAX) this.complaints.shift()
      })
    })
    const ended = once(child, 'exit').then(() => {
      throw new Error('nats-server ended')
    })
    await Promise.race([isReady, ended])
    ended.catch(() => {})
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child?.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  /** Removes all that it has. Pre: it does not run. */
  async empty(): Promise<void> {
    await rm(join(this.#directory, 'jetstream'), { recursive: true, force: true })
  }

  async cleanUp(): Promise<void> {
    await this.kill()
    await rm(this.#directory, { recursive: true, force: true })
  }
}

/** `wanted`: rejects when this port is not free. */
export async function freePort(wanted = 0): Promise<number> {
  const server = createServer().listen(wanted, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
