import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** A real NATS server with JetStream, on loopback, with a directory of its own. */
export class NatsServer {
  readonly url: string
  readonly port: number
  readonly #directory: string
  readonly #args: readonly string[]
  #child: ChildProcess | undefined

  private constructor(port: number, directory: string, args: readonly string[]) {
    this.port = port
    this.#args = args
    this.url = `${args.includes('--tls') ? 'tls' : 'nats'}://127.0.0.1:${port}`
    this.#directory = directory
  }

  static async start({ args = [] }: { args?: readonly string[] } = {}): Promise<NatsServer> {
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-nats-'))
    const server = new NatsServer(await freePort(), directory, args)
    await server.begin()
    return server
  }

  get pid(): number {
    return this.#child?.pid ?? -1
  }

  async begin(): Promise<void> {
    const args = [
      '--addr',
      '127.0.0.1',
      '--port',
      String(this.port),
      '--jetstream',
      '--store_dir',
      this.#directory,
    ]
    this.#child = spawn('nats-server', [...args, ...this.#args], { stdio: 'ignore' })
    for (let tries = 0; tries < 200; tries += 1) {
      if (await answers(this.port)) return
      await sleep(25)
    }
    throw new Error('nats-server does not answer')
  }

  async kill(): Promise<void> {
    const child = this.#child
    if (child?.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }

  async cleanUp(): Promise<void> {
    await this.kill()
    await rm(this.#directory, { recursive: true, force: true })
  }
}

async function answers(port: number): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port })
  try {
    await once(socket, 'data')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
