import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Elsewhere, HERE, ServerProcess } from '../server/server-process.ts'
import { NatsServer } from './nats-server.ts'

export const LEASE_MS = 4_000

/** One NATS server and some hosts, each a real server in a process of its own. */
export class TestCluster {
  readonly nats: NatsServer
  readonly hosts: ServerProcess[] = []
  readonly keyFile: string
  readonly #directory: string
  readonly #config: object

  private constructor(nats: NatsServer, directory: string, config: object) {
    this.nats = nats
    this.#directory = directory
    this.keyFile = join(directory, 'cluster.key')
    this.#config = config
  }

  static async start({
    hosts,
    nats: given,
    caFile,
    ...config
  }: { hosts: number; nats?: NatsServer; caFile?: string } & Record<string, unknown>): Promise<TestCluster> {
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-cluster-'))
    const keyFile = join(directory, 'cluster.key')
    await writeFile(keyFile, randomBytes(32).toString('base64'))
    const nats = given ?? (await NatsServer.start())
    const settings = { ...config, cluster: { servers: [nats.url], keyFile, leaseMs: LEASE_MS, caFile } }
    const cluster = new TestCluster(nats, directory, settings)
    try {
      for (let index = 0; index < hosts; index += 1) await cluster.addHost()
      return cluster
    } catch (error) {
      await cluster.cleanUp()
      throw error
    }
  }

  /** `changes`: settings of the cluster that this host has otherwise. `where`: what starts it. */
  async addHost(changes: object = {}, where: Partial<Elsewhere> = {}): Promise<ServerProcess> {
    const { cluster, ...others } = this.#config as { cluster: object }
    const config = { ...others, cluster: { ...cluster, ...changes } }
    const host = await ServerProcess.start(config, { ...HERE, ...where })
    this.hosts.push(host)
    return host
  }

  async cleanUp(): Promise<void> {
    await Promise.all(this.hosts.map((host) => host.cleanUp()))
    await this.nats.cleanUp()
    await rm(this.#directory, { recursive: true, force: true })
  }
}
