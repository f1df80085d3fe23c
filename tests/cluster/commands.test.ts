import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { ClusterKey, connectCluster } from '@dormouse/cluster'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { runLauncher } from '../cli/command-line.ts'
import { makeSetUpDirectory } from '../set-up-directory.ts'
import { makeCertificates } from './certificates.ts'
import { NatsOperator } from './nats-operator.ts'
import { freePort, NatsServer } from './nats-server.ts'

const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-commands-'))
  // Programs run below it with the ids of sandboxes.
  await chmod(directory, 0o711)
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const at = (name: string) => join(directory, name)

/** A command as an operator types it on a machine with this data directory. */
async function type(dataDir: string, args: string[], more: Record<string, string> = {}) {
  const env = { PATH: process.env['PATH'] ?? '', HOME: directory, DORMOUSE_DATA: dataDir, ...more }
  const ended = await runLauncher(['cluster', ...args], { env })
  const error = (): { code: string; message: string } =>
    JSON.parse(ended.stderr.trim().split('\n').at(-1) ?? '').error
  return { ...ended, error }
}

/** `./dormouse cluster dev` until it is interrupted. */
class DevCluster {
  readonly lines: string[] = []
  readonly #child: ChildProcess

  private constructor(child: ChildProcess) {
    this.#child = child
  }

  static async start(dataDir: string, args: string[]): Promise<DevCluster> {
    const env = { ...process.env, DORMOUSE_DATA: dataDir }
    const child = spawn(launcher, ['cluster', 'dev', ...args], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    const cluster = new DevCluster(child)
    await new Promise<void>((resolve, reject) => {
      child.once('exit', () => reject(new Error(`it has ended: ${cluster.lines.join('\n')}`)))
      createInterface({ input: child.stdout as NonNullable<typeof child.stdout> }).on('line', (line) => {
        cluster.lines.push(line)
        if (line.startsWith('Ctrl-C')) resolve()
      })
    })
    return cluster
  }

  /** What it says of a host behind these words. */
  said(host: string, words: string): string {
    const found = this.lines.map((line) => new RegExp(`^${host} .*${words}\\s+(\\S+)$`).exec(line)?.[1])
    return found.find((value) => value !== undefined) ?? ''
  }

  async end(): Promise<number | null> {
    if (this.#child.exitCode !== null) return this.#child.exitCode
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGINT')
    const [status] = await exited
    return status
  }
}

async function request(url: string, { key, json }: { key: string; json?: object }) {
  const response = await fetch(url, {
    ...(json && { method: 'POST', body: JSON.stringify(json) }),
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  })
  const body = await response.json()
  if (!response.ok) throw new Error(`${url}: ${JSON.stringify(body)}`)
  return body
}

describe('a cluster that is tried on one machine', () => {
  let dataDir: string
  let ports: string[]
  let nats: string
  let cluster: DevCluster | undefined

  beforeAll(async () => {
    dataDir = await makeSetUpDirectory(at('dev'))
    const [port, natsPort] = [await twoFreePorts(), await freePort()]
    ports = ['--nodes', '2', '--port', String(port), '--nats-port', String(natsPort)]
    nats = `nats://127.0.0.1:${natsPort}`
    cluster = await DevCluster.start(dataDir, ports)
  })
  afterAll(async () => {
    await cluster?.end()
    for (const host of ['host-1', 'host-2']) {
      const state = join(dataDir, 'cluster-dev', host)
      await rm(new Layout(state, dataDir).runDir, { recursive: true, force: true })
    }
  })

  it('has hosts that answer for each other, and keeps its sandboxes when it is started again', async () => {
    const key = cluster?.said('host-1', 'API key, .*:') ?? ''
    const on = (host: string, path: string) => `${cluster?.said(host, 'address')}/v1/sandboxes${path}`
    const made = await request(on('host-1', ''), { key, json: {} })
    await request(on('host-1', `/${made.id}/run`), { key, json: { code: 'value = 6 * 7' } })
    const read = async (host: string) =>
      (await request(on(host, `/${made.id}/run`), { key, json: { code: 'print(value)' } })).stdout
    await expect.poll(() => read('host-2')).toBe('42\n')
    expect(await cluster?.end()).toBe(0)
    cluster = await DevCluster.start(dataDir, ports)
    expect(await read('host-2')).toBe('42\n')
  }, 90_000)

  it('gives its key to a new host with a token, once', async () => {
    const keyFile = join(dataDir, 'cluster-dev/cluster.key')
    const flags = ['--cluster', nats, '--cluster-key', keyFile]
    const { status, stdout: token } = await type(dataDir, ['token', ...flags])
    expect(status).toBe(0)
    const joined = await type(at('new'), ['join', token.trim()])
    expect(joined).toMatchObject({
      status: 0,
      stdout: `Start this host with: ./dormouse up --cluster ${nats}\n`,
    })
    expect((await readFile(join(at('new'), 'cluster.key'), 'utf8')).trim()).toBe(
      await readFile(keyFile, 'utf8'),
    )
    expect((await stat(join(at('new'), 'cluster.key'))).mode & 0o777).toBe(0o600)
    const again = await type(at('third'), ['join', token.trim(), '--json'])
    expect(again.status).not.toBe(0)
    expect(again.error()).toMatchObject({ code: 'invalid_argument' })
    expect(await readdir(at('third'))).not.toContain('cluster.key')
  }, 60_000)

  it('has its state in a file, from which empty NATS servers get it', async () => {
    const flags = ['--cluster-key', join(dataDir, 'cluster-dev/cluster.key')]
    const written = await type(dataDir, ['backup', at('file'), '--cluster', nats, ...flags])
    expect(written).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^Wrote \d+ records, [\d.]+ MB\.\n/),
    })
    await using empty = await startNats()
    const restore = (...more: string[]) =>
      type(dataDir, ['restore', at('file'), '--cluster', empty.url, ...flags, ...more])
    expect((await restore()).stdout).toBe(written.stdout.replace('Wrote', 'Restored'))
    expect((await restore('--json')).error()).toMatchObject({ code: 'conflict' })
    // A file that is there is not written over.
    const refused = await type(dataDir, ['backup', at('file'), '--cluster', nats, ...flags, '--json'])
    expect(refused.status).not.toBe(0)
  }, 60_000)
})

describe('NATS with an operator and accounts', () => {
  const operator = new NatsOperator()
  const CREDENTIALS = 'user.creds'
  let nats: NatsServer & AsyncDisposable
  let keyFile: string
  beforeAll(async () => {
    nats = await startNats(await operator.configure(directory))
    await operator.writeCredentials(at(CREDENTIALS))
    await operator.writeCredentials(at('expired.creds'), { expiresAt: Date.now() - 60_000 })
    await writeFile(at('broken.creds'), 'no credentials')
    keyFile = at('operator.key')
    await writeFile(keyFile, Buffer.alloc(32, 7).toString('base64'))
  })
  afterAll(() => nats?.cleanUp())

  const token = (credentials?: string) =>
    type(directory, ['token', '--cluster', nats.url, '--cluster-key', keyFile, '--json'], {
      ...(credentials !== undefined && { DORMOUSE_CLUSTER_CREDENTIALS: at(credentials) }),
    })

  it('lets a host join with a credentials file', async () => {
    const made = await token(CREDENTIALS)
    const env = { DORMOUSE_CLUSTER_CREDENTIALS: at(CREDENTIALS) }
    const joined = await type(at('with-credentials'), ['join', JSON.parse(made.stdout).token], env)
    expect(joined).toMatchObject({ status: 0, stdout: expect.stringContaining(nats.url) })
  })

  it.each([
    [undefined, /refuses this host: .*Authorization/i],
    ['expired.creds', /refuses this host: /],
    ['broken.creds', /is not one of NATS/],
    ['missing.creds', /cannot be read/],
  ])('refuses a host with the credentials %s, and says so', async (credentials, message) => {
    const refused = await token(credentials)
    expect(refused.status).not.toBe(0)
    expect(refused.error()).toMatchObject({ code: 'setup_failed', message: expect.stringMatching(message) })
  })
})

describe('NATS with TLS', () => {
  it('is asked by commands when they know who signs its certificate', async () => {
    const { ca, cert, key } = makeCertificates(directory)
    await using nats = await startNats(['--tls', '--tlscert', cert, '--tlskey', key])
    await writeFile(at('tls.key'), Buffer.alloc(32, 7).toString('base64'))
    const args = ['token', '--cluster', nats.url, '--cluster-key', at('tls.key'), '--json']
    const refused = await type(directory, args)
    expect(refused.error()).toMatchObject({
      ...{
        code: 'setup_failed',
        message: expect.stringMatching(/certificate of NATS at tls:.* is not accepted/),
      },
    })
    const { stdout } = await type(directory, args, { DORMOUSE_CLUSTER_CA: ca })
    const joined = await type(at('with-tls'), ['join', JSON.parse(stdout).token], { DORMOUSE_CLUSTER_CA: ca })
    expect(joined).toMatchObject({ status: 0, stdout: expect.stringContaining(nats.url) })
    const unreadable = await type(directory, args, { DORMOUSE_CLUSTER_CA: at('missing.pem') })
    expect(unreadable.error()).toMatchObject({ code: 'setup_failed' })
  })
})

describe('a connection whose credentials expire', () => {
  it('continues with those that replace them, although NATS refused it meanwhile', async () => {
    const operator = new NatsOperator()
    await using nats = await startNats(await operator.configure(directory))
    const path = at('replaced.creds')
    await operator.writeCredentials(path, { expiresAt: Date.now() + 2_000 })
    const key = new ClusterKey(Buffer.alloc(32, 7))
    await using connection = await connectCluster({
      ...{ servers: [nats.url], replicas: 1, key, hostId: 'x', credentialsFile: path },
    })
    let refusals = 0
    for await (const { type } of connection.nats.status()) {
      if (type === 'error') refusals += 1
      // The client of NATS would end at the second one in a row.
      if (refusals === 4) break
    }
    await operator.writeCredentials(path)
    await expect
      .poll(() => connection.keys.get('cluster').then((found) => found?.string(), String))
      .toBe(key.proof)
  })
})

async function startNats(args: string[] = []): Promise<NatsServer & AsyncDisposable> {
  const server = await NatsServer.start({ args })
  return Object.assign(server, { [Symbol.asyncDispose]: () => server.cleanUp() })
}

/** The first of two ports in a row. */
async function twoFreePorts(): Promise<number> {
  for (;;) {
    const first = await freePort()
    if (await isFree(first + 1)) return first
  }
}

async function isFree(port: number): Promise<boolean> {
  return await freePort(port).then(
    () => true,
    () => false,
  )
}
