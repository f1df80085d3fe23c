import { type ChildProcess, execFile } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ServerProcess } from '../../server/server-process.ts'
import { TEST_ISOLATION } from '../../test-isolation.ts'
import { inNamespace, makeNamespaces, type Namespaces } from './namespaces.ts'
import { beginProgram, hasBegun, openRelay } from './relay.ts'

/** A service of the host that no sandbox may reach. */
export const CANARY_PORT = 9_999

/** What a name stands for. Several answers are given one after the other, the last one for ever. */
export type Records = Readonly<Record<string, { A?: readonly string[][]; AAAA?: readonly string[][] }>>

const NAMES: Records = {
  'web.example': { A: [['11.22.33.44']], AAAA: [['2a00:22:33::44']] },
  'api.web.example': { A: [['11.22.33.44']] },
  'other.example': { A: [['11.22.33.45']] },
  'inner.example': { A: [['10.9.8.7']], AAAA: [['fd00:77::7']] },
}

/** A server in a network of the test's own, and all that it could reach. */
export class World {
  readonly server: ServerProcess
  readonly #namespaces: Namespaces
  readonly #children: ChildProcess[]
  readonly #internet: ChildProcess
  readonly #canary: ChildProcess
  readonly #serverPort: () => number
  #messages = 0

  private constructor(
    server: ServerProcess,
    namespaces: Namespaces,
    serverPort: () => number,
    [internet, canary, ...others]: [ChildProcess, ChildProcess, ...ChildProcess[]],
  ) {
    this.server = server
    this.#namespaces = namespaces
    this.#serverPort = serverPort
    this.#internet = internet
    this.#canary = canary
    this.#children = [internet, canary, ...others]
  }

  static async make(config: { network?: object } & object = {}): Promise<World> {
    const namespaces = makeNamespaces()
    const children: ChildProcess[] = []
    const start = async (where: string, program: string, ...rest: string[]) => {
      const child = begin(where, program, rest)
      children.push(child)
      await hasBegun(child)
      return child
    }
    try {
      const internet = await start(namespaces.internet, 'internet.mjs', namespaces.host, namespaces.internet)
      const canary = await start(namespaces.host, 'canary.mjs', String(CANARY_PORT))
      const relay = await openRelay(inNamespace(namespaces.host))
      children.push(relay.child)
      const server = await ServerProcess.start(
        {
          host: '0.0.0.0',
          allowInsecureBind: true,
          isolation: TEST_ISOLATION,
          ssh: { host: '0.0.0.0', port: 0 },
          ...config,
          network: { resolvers: ['11.0.0.53'], registries: [], proxy: 'none', ...config.network },
        },
        { launcher: inNamespace(namespaces.host), reach: relay.reach },
      )
      const world = new World(server, namespaces, relay.target, [internet, canary, relay.child])
      await world.say(NAMES)
      return world
    } catch (error) {
      for (const child of children) child.kill('SIGKILL')
      namespaces.remove()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      if (TEST_ISOLATION === 'microvm') await this.#deleteSandboxes()
      await this.server.cleanUp()
    } finally {
      for (const child of this.#children) child.kill('SIGTERM')
      this.#namespaces.remove()
    }
  }

  /** What cleans up behind a server knows processes only. */
  async #deleteSandboxes(): Promise<void> {
    const { items } = await this.server.ok('/v1/sandboxes')
    for (const { id } of items) await this.server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  }

  /** What the name server of the internet says from now on. */
  async say(records: Records): Promise<void> {
    await this.#tell({ set: records })
  }

  /** What has been asked and reached since `forget`. */
  async seen(): Promise<{ questions: string[]; connections: string[] }> {
    return this.#tell({ ask: true })
  }

  async forget(): Promise<void> {
    await this.#tell({ forget: true })
  }

  /** Starts another program in the internet; ready when it has said something. */
  async startOutside(program: string, ...args: string[]): Promise<ChildProcess> {
    const child = begin(this.#namespaces.internet, program, args)
    this.#children.push(child)
    await hasBegun(child)
    return child
  }

  /** How often the service of the host itself was reached. */
  async canaryVisits(): Promise<number> {
    const answer = once(this.#canary, 'message')
    this.#canary.send({})
    return (await answer)[0].visits
  }

  /** The port of the server where it really listens. */
  get serverPort(): number {
    return this.#serverPort()
  }

  get sshPort(): number {
    const report = this.server.lines.findLast((line) => line.startsWith('report {"type":"ready"'))
    return JSON.parse(report?.slice('report '.length) ?? '').ssh.port
  }

  /** The first bytes that a program of the host itself hears there, whatever is spoken. */
  async heardOnHost(address: string, port: number): Promise<string> {
    const [command = '', ...args] = inNamespace(this.#namespaces.host)
    const ask = `exec 3<>/dev/tcp/${address}/${port}; printf 'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; head -c 4 <&3`
    const { stdout } = await promisify(execFile)(command, [...args, 'timeout', '5', 'bash', '-c', ask])
    return stdout
  }

  /** What a program of the host itself gets to hear. */
  async fromHost(address: string, port: number): Promise<string> {
    const host = address.includes(':') ? `[${address}]` : address
    const [command = '', ...args] = inNamespace(this.#namespaces.host)
    const { stdout } = await promisify(execFile)(command, [
      ...args,
      'curl',
      '-sg',
      '-m5',
      `http://${host}:${port}/`,
    ])
    return stdout
  }

  async create(network?: object, more: object = {}): Promise<string> {
    const json = { idleTimeoutMs: 0, ...(network && { network }), ...more }
    const { id } = await this.server.ok('/v1/sandboxes', { json })
    await this.server.run(id, INSIDE)
    return id
  }

  /** The value of a Python expression inside; the functions of `INSIDE` are at hand. */
  async inside<Value = string>(id: string, expression: string): Promise<Value> {
    return JSON.parse(await this.server.run(id, `import json; print(json.dumps(${expression}))`))
  }

  patch(id: string, network: object): Promise<unknown> {
    return this.server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { network } })
  }

  #tell<Answer>(message: object): Promise<Answer> {
    this.#messages += 1
    const id = this.#messages
    const answer = new Promise<Answer>((resolve) => {
      const hear = (said: { id: unknown } & Answer) => {
        if (said.id !== id) return
        this.#internet.off('message', hear)
        resolve(said)
      }
      this.#internet.on('message', hear)
    })
    this.#internet.send({ id, ...message })
    return answer
  }
}

/**
 * `get` says what came back, or the name of the error; nothing comes back from what is refused. `hear` takes what
 * speaks no HTTP, too.
 */
const INSIDE = `
import errno, socket, threading, time, urllib.request
def get(host, port=80, path="/", timeout=10, source=None, name=None):
    try:
        with socket.create_connection((host, port), timeout, source) as s:
            s.sendall(f"GET {path} HTTP/1.1\\r\\nHost: {name or host}\\r\\n\\r\\n".encode())
            said = b""
            while more := s.recv(65536):
                said += more
            return said.decode().split("\\r\\n\\r\\n", 1)[1] if said else "closed"
    except OSError as error:
        return type(error).__name__
def hear(host, port, timeout=5):
    try:
        with socket.create_connection((host, port), timeout) as s:
            s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            return s.recv(1000).decode("latin1")
    except OSError:
        return ""
def lookup(name, family=socket.AF_INET):
    try:
        return sorted({info[4][0] for info in socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)})
    except OSError as error:
        return type(error).__name__
`

function begin(where: string, program: string, rest: readonly string[]): ChildProcess {
  const path = fileURLToPath(new URL(program, import.meta.url))
  return beginProgram(inNamespace(where), [path, ...rest])
}
