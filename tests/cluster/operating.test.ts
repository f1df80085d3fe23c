import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, truncate } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  backUpCluster,
  ClusterKey,
  connectCluster,
  createJoinToken,
  Depot,
  Directory,
  JetStreamStore,
  Names,
  restoreCluster,
  STATE_FORMAT,
  useJoinToken,
} from '@dormouse/cluster'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { OwnedSandboxes } from '../../packages/server/src/cluster/owned-sandboxes.ts'
import type { SandboxRow } from '../../packages/server/src/store/sandbox-rows.ts'
import { makeCertificates } from './certificates.ts'
import { NatsServer } from './nats-server.ts'
import { TestCluster } from './test-cluster.ts'

const keyBytes = randomBytes(32)
const key = new ClusterKey(keyBytes)
let directory: string
let nats: NatsServer

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-operating-'))
  nats = await NatsServer.start()
})
afterAll(async () => {
  await nats?.cleanUp()
  await rm(directory, { recursive: true, force: true })
})

const connect = (to: NatsServer, own = key) =>
  connectCluster({ servers: [to.url], replicas: 1, key: own, hostId: 'operator' })

describe('a backup', () => {
  it('brings the directory and the depot into empty NATS servers, and nowhere else', async () => {
    const path = join(directory, 'backup')
    const content = randomBytes(2_000_000)
    const entry = {
      ...{ host: 'one', epoch: 3, generation: 1, owner: 'o', state: 'standby', createdAt: 1, row: { a: 1 } },
    }
    await using before = await connect(nats)
    using entries = await Directory.open({ bucket: before.directory, key })
    await entries.add('sb-kept', entry)
    const removed = await entries.add('sb-removed', entry)
    if (removed !== undefined) await entries.remove(removed)
    expect(await backUpCluster(before, join(directory, 'bare'))).toMatchObject({ hasDepot: false })
    const full = await JetStreamStore.open({ ...before, replicas: 1 })
    const depot = new Depot({ store: full, key: before.key })
    const { chunks } = await depot.storeStream(Readable.from([content]))
    const written = await backUpCluster(before, path)
    expect(written).toMatchObject({ hasDepot: true })
    expect(written.bytes).toBeGreaterThan(content.length)
    await expect(restoreCluster(before, path)).rejects.toMatchObject({ code: 'conflict' })

    const empty = await NatsServer.start()
    try {
      await using after = await connect(empty)
      const store = await JetStreamStore.open({ ...after, replicas: 1 })
      const restored = new Depot({ store, key: after.key })
      expect(await restoreCluster(after, path)).toEqual(written)
      using found = await Directory.open({ bucket: after.directory, key })
      expect(found.find('sb-kept')?.entry).toEqual(entry)
      expect(await found.wasRemoved('sb-removed')).toBe(true)
      const loaded: Buffer[] = []
      for await (const piece of restored.load(chunks)) loaded.push(piece)
      expect(Buffer.concat(loaded).equals(content)).toBe(true)
    } finally {
      await empty.cleanUp()
    }
  })

  it('is refused when it is of another cluster, or not whole', async () => {
    const path = join(directory, 'other')
    await using connection = await connect(nats)
    await JetStreamStore.open({ ...connection, replicas: 1 })
    await backUpCluster(connection, path)
    const empty = await NatsServer.start()
    try {
      await using other = await connect(empty, new ClusterKey(randomBytes(32)))
      await expect(restoreCluster(other, path)).rejects.toMatchObject({ code: 'setup_failed' })
      await truncate(path, 1000)
      await using same = await connectCluster({
        ...{ servers: [nats.url], replicas: 1, key, hostId: 'operator' },
      })
      await expect(restoreCluster({ ...same, manager: other.manager }, path)).rejects.toMatchObject({
        code: 'invalid_argument',
      })
    } finally {
      await empty.cleanUp()
    }
  })
})

describe('a join token', () => {
  it('gives the cluster key to one host', async () => {
    await using connection = await connect(nats)
    const token = await createJoinToken(connection, {
      clusterKey: keyBytes,
      servers: [nats.url],
      replicas: 1,
    })
    const joined = await useJoinToken(token)
    expect(joined.clusterKey.equals(keyBytes)).toBe(true)
    await expect(useJoinToken(token)).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(useJoinToken('nonsense')).rejects.toMatchObject({ code: 'invalid_argument' })
  })
})

describe('versions side by side', () => {
  it('an older host is refused when a newer one has changed the format of the state', async () => {
    const other = await NatsServer.start()
    try {
      const connection = await connect(other)
      await connection.keys.put('format', String(STATE_FORMAT + 1))
      await connection[Symbol.asyncDispose]()
      await expect(connect(other)).rejects.toMatchObject({ code: 'setup_failed' })
    } finally {
      await other.cleanUp()
    }
  })

  it('a host keeps fields of directory entries that a newer version has added', async () => {
    await using connection = await connect(nats)
    using entries = await Directory.open({ bucket: connection.directory, key })
    const newer = {
      ...{ host: 'one', epoch: 1, generation: 0, owner: 'o', state: 'standby', createdAt: 1, row: {} },
      added: 'later',
    }
    const added = await entries.add('sb-newer', newer)
    if (added === undefined) throw new Error('there is an entry')
    const seen = await entries.read('sb-newer')
    expect(seen?.entry).toMatchObject({ added: 'later' })
    const names = new Names({ bucket: connection.names, key, exists: async () => true })
    const owned = new OwnedSandboxes({ directory: entries, names, hostId: 'one', onLost: () => {} })
    owned.epoch = 2
    owned.hold(added)
    owned.publish({ id: 'sb-newer', owner: 'o', state: 'running', createdAt: 1 } as unknown as SandboxRow)
    await owned.flush('sb-newer')
    const written = await entries.read('sb-newer')
    expect(written?.entry).toMatchObject({ added: 'later', epoch: 2, state: 'running' })
    // The answer to a write was lost, so the owner knows an earlier revision: a deletion still removes the entry.
    if (written !== undefined) await entries.change(written, written.entry)
    await owned.release({ id: 'sb-newer', owner: 'o' } as SandboxRow)
    expect(await entries.wasRemoved('sb-newer')).toBe(true)
  })
})

describe('TLS', () => {
  it('protects the connections to NATS and between hosts, with certificates of one authority', async () => {
    const certificate = makeCertificates(directory)
    const secured = await NatsServer.start({
      args: ['--tls', '--tlscert', certificate.cert, '--tlskey', certificate.key],
    })
    const tls = { certFile: certificate.cert, keyFile: certificate.key }
    const cluster = await TestCluster.start({
      ...{ hosts: 2, nats: secured, tls, caFile: certificate.ca },
    })
    try {
      const [one, two] = cluster.hosts
      if (one === undefined || two === undefined) throw new Error('a host is missing')
      const ca = await readFile(certificate.ca)
      const ask = (url: string, path: string, body?: object) => askTls(url + path, { ca, key: one.key, body })
      expect(one.url.startsWith('https:')).toBe(true)
      const { body } = await ask(one.url, '/v1/sandboxes', {})
      await expect.poll(async () => (await ask(two.url, `/v1/sandboxes/${body.id}`)).status).toBe(200)
      const passed = await ask(two.url, `/v1/sandboxes/${body.id}/run`, { code: 'print(6 * 7)' })
      expect(passed).toMatchObject({ host: one.url, body: { stdout: '42\n' } })
      expect((await ask(two.url, '/v1/usage')).body.sandboxes).toHaveLength(1)
      const plain = connectCluster({
        ...{ servers: [secured.url], replicas: 1, key, hostId: 'x' },
      })
      await expect(plain).rejects.toMatchObject({
        code: 'setup_failed',
        message: expect.stringContaining('certificate'),
      })
    } finally {
      await cluster.cleanUp()
    }
  })
})

function askTls(
  url: string,
  { ca, key: apiKey, body }: { ca: Buffer; key: string; body?: object | undefined },
  // biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
): Promise<{ status: number; host: string | undefined; body: any }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
    const sent = request(url, { ca, headers, method: body === undefined ? 'GET' : 'POST' }, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          host: response.headers['dormouse-host'] as string | undefined,
          body: JSON.parse(Buffer.concat(pieces).toString()),
        }),
      )
    })
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
