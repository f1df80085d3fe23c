import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beginProgram, hasBegun, openRelay } from '../../network/world/relay.ts'
import { ServerProcess } from '../../server/server-process.ts'
import { shareTemplate } from '../../snapshot/small-disk.ts'
import { NatsServer } from '../nats-server.ts'
import type { Beat } from './beats.ts'
import { MONITOR_PORT } from './nats-streams.ts'
import { buildClock, OwnClock } from './own-clock.ts'
import { OwnDisk } from './own-disk.ts'
import { type Member, SwitchedNetwork } from './switched-network.ts'

export const LEASE_MS = 4_000
const WITNESS_PORT = 9_000
const S3_PORT = 9_001
const NATS_PORT = 4_222
const ROUTE_PORT = 6_222
const HOSTS = 3
const NATS_SERVERS = 3

export interface FaultyHost {
  readonly server: ServerProcess
  readonly member: Member
  /** Its id in the cluster. */
  readonly node: string
  readonly disk: OwnDisk
  readonly clock: OwnClock
}

export interface FaultyNats {
  readonly server: NatsServer
  readonly member: Member
  readonly disk: OwnDisk
}

/**
 * Three NATS servers and three hosts, each in a network namespace and with a disk of its own, the hosts with a wall
 * clock of their own. A witness outside hears what sandboxes send. With `s3`, the depot is in a store that can do wrong.
 */
export class FaultyCluster {
  readonly network = new SwitchedNetwork()
  readonly hosts: FaultyHost[] = []
  readonly nats: FaultyNats[] = []
  #witness: ChildProcess | undefined
  #store: ChildProcess | undefined
  readonly #witnessMember = this.network.add('witness')
  readonly #directory: string
  readonly #children: ChildProcess[] = []
  readonly #disks: OwnDisk[] = []

  private constructor(directory: string) {
    this.#directory = directory
  }

  static async start({ s3 = false } = {}): Promise<FaultyCluster> {
    const cluster = new FaultyCluster(await mkdtemp(join(tmpdir(), 'dormouse-faulty-')))
    try {
      await cluster.#startNats()
      await cluster.#startWitness()
      await cluster.#startHosts(s3 ? await cluster.#startStore() : {})
      return cluster
    } catch (error) {
      await cluster.cleanUp()
      throw error
    }
  }

  get key(): string {
    return this.hosts[0]?.server.key ?? ''
  }

  get hasStore(): boolean {
    return this.#store !== undefined
  }

  /** Python that makes a sandbox send its id, which is its host name, to the witness, twenty times a second. */
  get beatCode(): string {
    return `
import socket, threading, time
def beat():
    while True:
        try:
            with socket.create_connection(("${this.#witnessMember.address}", ${WITNESS_PORT}), 1) as s:
                s.sendall(s.recv(64).strip() + b" " + socket.gethostname().encode() + b"\\n")
                s.recv(1)
        except OSError:
            pass
        time.sleep(0.05)
threading.Thread(target=beat, daemon=True).start()
`
  }

  /** What the witness has heard since it was last asked. */
  async beats(): Promise<Beat[]> {
    if (this.#witness === undefined) throw new Error('there is no witness')
    const answer = once(this.#witness, 'message')
    this.#witness.send({})
    const names = new Map(this.hosts.map(({ member }) => [member.address, member.name]))
    const [{ beats }] = (await answer) as [{ beats: Beat[] }]
    return beats.map((beat) => ({ ...beat, from: names.get(beat.from) ?? beat.from }))
  }

  async setStoreFault(fault: 'none' | 'error' | 'cut'): Promise<void> {
    if (this.#store === undefined) return
    const answer = once(this.#store, 'message')
    this.#store.send({ fault })
    await answer
  }

  async cleanUp(): Promise<void> {
    this.network.heal()
    for (const { server } of this.hosts) {
      await server.kill()
      await server.factory.dispose()
    }
    for (const { server } of this.nats) await server.kill()
    for (const child of this.#children) child.kill('SIGKILL')
    for (const disk of this.#disks) await disk.remove()
    for (const { server } of [...this.hosts, ...this.nats]) await server.cleanUp()
    this.network.remove()
    await rm(this.#directory, { recursive: true, force: true })
  }

  async #startNats(): Promise<void> {
    const members = Array.from({ length: NATS_SERVERS }, (_, index) => this.network.add(`nats-${index}`))
    const route = ({ address }: Member) => `nats://${address}:${ROUTE_PORT}`
    const start = async (member: Member) => {
      let disk: OwnDisk | undefined
      const server = await NatsServer.start({
        launcher: member.launcher,
        address: member.address,
        port: NATS_PORT,
        args: [
          ...['--server_name', member.name, '--cluster_name', 'faulty', '--cluster', route(member)],
          ...['--routes', members.map(route).join(',')],
          ...['--http_port', String(MONITOR_PORT)],
        ],
        prepare: async (directory) => {
          disk = await this.#mount(directory)
        },
      })
      this.nats.push({ server, member, disk: disk as OwnDisk })
    }
    await Promise.all(members.map(start))
  }

  async #startWitness(): Promise<void> {
    const { launcher, address } = this.#witnessMember
    this.#witness = await this.#begin(launcher, 'witness.mjs', address, String(WITNESS_PORT))
  }

  async #startStore(): Promise<object> {
    const { launcher, address } = this.network.add('store')
    const directory = join(this.#directory, 's3')
    await mkdir(directory)
    this.#store = await this.#begin(launcher, 'faulty-s3.mjs', address, String(S3_PORT), directory)
    const s3CredentialsFile = join(this.#directory, 's3.json')
    await writeFile(s3CredentialsFile, '{"accessKeyId":"S3RVER","secretAccessKey":"S3RVER"}')
    return { s3Url: `http://${address}:${S3_PORT}/depot`, s3CredentialsFile }
  }

  async #startHosts(depot: object): Promise<void> {
    const toolsDir = join(this.#directory, 'tools')
    await shareTemplate(toolsDir)
    const library = await buildClock(this.#directory)
    const keyFile = join(this.#directory, 'cluster.key')
    await writeFile(keyFile, randomBytes(32).toString('base64'))
    const servers = this.nats.map(({ server }) => server.url)
    const cluster = { servers, keyFile, leaseMs: LEASE_MS, replicas: NATS_SERVERS, ...depot }
    const start = async (index: number) => {
      const member = this.network.add(`host-${index}`)
      const clock = await OwnClock.make(library, join(this.#directory, `clock-${index}`))
      const relay = await openRelay(member.launcher, member.address)
      this.#children.push(relay.child)
      let disk: OwnDisk | undefined
      const server = await ServerProcess.start(
        {
          ...{ host: member.address, allowInsecureBind: true, idleTimeoutMs: 0, cluster },
          ...{ ssh: { enabled: false }, logLevel: process.env['DORMOUSE_TEST_LOG'] ?? 'fatal' },
          network: { resolvers: [this.#witnessMember.address], registries: [], proxy: 'none' },
        },
        {
          launcher: [...member.launcher, ...clock.launcher],
          ...{ reach: relay.reach, toolsDir },
          prepare: async (directory) => {
            disk = await this.#mount(directory)
          },
        },
      )
      const { items } = await server.ok('/v1/nodes')
      const { id: node } = items.find(({ isSelf }: { isSelf: boolean }) => isSelf)
      this.hosts.push({ server, member, node, clock, disk: disk as OwnDisk })
    }
    for (let index = 0; index < HOSTS; index += 1) await start(index)
  }

  async #mount(directory: string): Promise<OwnDisk> {
    const disk = await OwnDisk.mountAt(directory)
    this.#disks.push(disk)
    return disk
  }

  async #begin(launcher: readonly string[], program: string, ...rest: string[]): Promise<ChildProcess> {
    const child = beginProgram(launcher, [fileURLToPath(new URL(program, import.meta.url)), ...rest])
    this.#children.push(child)
    await hasBegun(child)
    return child
  }
}
