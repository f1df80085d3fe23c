import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '@dormouse/engine'
import { type LinuxFactory, linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { serverBundle } from './bundle-server.ts'

const program = serverBundle('serve')
const faultyProgram = serverBundle('serve-faulty')

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

export interface Answer<Body = Json> {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
}

const FAULT_TIMEOUT_MS = 90_000

/** Where a server runs that is not simply started. */
export interface Elsewhere {
  /** What starts it, with its command line behind. */
  readonly launcher: readonly string[]
  /** From the address that it says to one that leads there. */
  readonly reach: (address: string) => Promise<string>
  /** Where templates and CRIU are. */
  readonly toolsDir?: string
  /** The server of another version, from the next start on. */
  readonly program?: () => string | undefined
  /** Called with the data directory before anything is in it. */
  readonly prepare?: (dataDir: string) => Promise<void>
}

/**
 * What the engine of a server does at a moment: it does not come back from a call, or fails in it. `amid`, for `fork`:
 * when only its first child is restored.
 */
export interface Fault {
  readonly method: keyof Engine
  readonly when: 'before' | 'after' | 'amid'
  readonly does: 'hang' | 'fail'
}

export const HERE: Elsewhere = { launcher: [], reach: async (address) => address }

/** A real server in a process of its own, reached over HTTP. */
export class ServerProcess {
  readonly factory: LinuxFactory
  readonly lines: string[] = []
  readonly #where: Elsewhere
  #child: ChildProcess | undefined
  #faults: readonly Fault[] = []
  #linesBefore = 0
  #url = ''
  #key = ''

  private constructor(factory: LinuxFactory, where: Elsewhere) {
    this.factory = factory
    this.#where = where
  }

  static async start(config: object = {}, where = HERE): Promise<ServerProcess> {
    const server = new ServerProcess(await linuxFactory(), where)
    // Free memory and disk of a shared machine are none of a test's business.
    const whole = {
      minFreeMemoryBytes: 0,
      minFreeDiskBytes: 0,
      ssh: { port: 0 },
      logLevel: 'warn',
      ...config,
    }
    try {
      await where.prepare?.(server.factory.stateDir)
      await writeFile(join(server.factory.stateDir, 'config.json'), JSON.stringify(whole))
      await server.begin()
      return server
    } catch (error) {
      await server.cleanUp()
      throw error
    }
  }

  get url(): string {
    return this.#url
  }

  get key(): string {
    return this.#key
  }

  get pid(): number {
    return this.#child?.pid ?? -1
  }

  /** With faults it may never be ready: then this waits until one of them has struck. */
  async begin(faults: readonly Fault[] = [], { port = 0 } = {}): Promise<void> {
    const { stateDir } = this.factory
    const { toolsDir = testDataDir } = this.#where
    const sound = this.#where.program?.() ?? program
    this.#faults = faults
    this.#linesBefore = this.lines.length
    const [command = '', ...args] = [
      ...this.#where.launcher,
      process.execPath,
      ...[faults.length === 0 ? sound : faultyProgram, stateDir, toolsDir, '--port', String(port)],
    ]
    const env = { ...process.env, DORMOUSE_TEST_FAULTS: JSON.stringify(faults) }
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env })
    this.#child = child
    const problems: string[] = []
    child.stderr?.on('data', (data: Buffer) => {
      problems.push(data.toString())
      process.stderr.write(data)
    })
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`The server ended: ${problems.join('')}`)))
      createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }).on('line', (line) => {
        this.lines.push(line)
        const address = /^\s+address\s+(\S+)$/.exec(line)?.[1]
        if (address !== undefined) this.#url = address
        if (line.startsWith('Ctrl-C') || line.startsWith('fault ')) resolve()
      })
    })
    this.#url = await this.#where.reach(this.#url)
    this.#key = JSON.parse(await readFile(join(stateDir, 'client.json'), 'utf8')).key
  }

  /** Resolves when a fault has struck since the last start. */
  async struck(): Promise<void> {
    const isThere = () => this.lines.slice(this.#linesBefore).some((line) => line.startsWith('fault '))
    const deadline = Date.now() + FAULT_TIMEOUT_MS
    while (!isThere()) {
      if (Date.now() > deadline) throw new Error('no fault has struck')
      await sleep(2)
    }
  }

  /** Removes all that tests have made: what a failed test leaves must not disturb the next one. */
  async clear(): Promise<void> {
    if (this.#faults.length > 0) await this.kill()
    if (!this.#isRunning) await this.begin()
    const remove = async (kind: string, named: 'id' | 'name') => {
      const { items } = await this.ok(`/v1/${kind}`)
      for (const item of items) {
        if (item.source === 'built_in' || item.source === 'host') continue
        const { status, body } = await this.call(`/v1/${kind}/${item[named]}`, { method: 'DELETE' })
        if (status !== 204 && status !== 404) throw new Error(`${kind}: ${status} ${JSON.stringify(body)}`)
      }
    }
    await remove('services', 'id')
    await remove('sandboxes', 'id')
    await remove('templates', 'name')
    await remove('snapshots', 'id')
    await remove('volumes', 'name')
    await remove('secrets', 'name')
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** In order: everything goes to standby. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM')
  }

  get #isRunning(): boolean {
    const child = this.#child
    return child !== undefined && child.exitCode === null && child.signalCode === null
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (child === undefined || !this.#isRunning) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  async cleanUp(): Promise<void> {
    await this.#end('SIGKILL')
    await this.factory.cleanUp()
  }

  fetch(path: string, options: RequestInit & { json?: unknown; key?: string } = {}): Promise<Response> {
    const { json, key = this.#key, headers, ...rest } = options
    return fetch(this.#url + path, {
      ...rest,
      ...(json !== undefined && { method: rest.method ?? 'POST', body: JSON.stringify(json) }),
      headers: {
        authorization: `Bearer ${key}`,
        ...(json !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
    })
  }

  async call(path: string, options: Parameters<ServerProcess['fetch']>[1] = {}): Promise<Answer> {
    const response = await this.fetch(path, options)
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : JSON.parse(text),
    }
  }

  /** Throws what is no success. */
  async ok(path: string, options: Parameters<ServerProcess['fetch']>[1] = {}): Promise<Json> {
    const { status, body } = await this.call(path, options)
    if (status >= 300) throw new Error(`${path}: ${status} ${JSON.stringify(body)}`)
    return body
  }

  async run(sandbox: string, code: string): Promise<string> {
    const { stdout, stderr, exitCode } = await this.ok(`/v1/sandboxes/${sandbox}/run`, { json: { code } })
    if (exitCode !== 0) throw new Error(stderr)
    return stdout
  }
}
