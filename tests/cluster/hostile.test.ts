import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { brotliCompressSync, deflateRawSync } from 'node:zlib'
import {
  type ClusterConnection,
  ClusterKey,
  connectCluster,
  Depot,
  Directory,
  encodeHost,
  type HostRecord,
  JetStreamStore,
  S3Store,
} from '@dormouse/cluster'
import { newSandboxId, newSnapshotId } from '@dormouse/contracts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkEntry } from '../../packages/server/src/cluster/check-entry.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { TestCluster } from './test-cluster.ts'

let cluster: TestCluster
let host: ServerProcess
let connection: ClusterConnection
let store: JetStreamStore
let depot: Depot
const cleanUps: (() => unknown)[] = []

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 1, logLevel: 'silent' })
  host = cluster.hosts[0] as ServerProcess
  const key = new ClusterKey(Buffer.from(await readFile(cluster.keyFile, 'utf8'), 'base64'))
  connection = await connectCluster({ servers: [cluster.nats.url], replicas: 1, key, hostId: 'hostile' })
  store = await JetStreamStore.open({ ...connection, replicas: 1 })
  depot = new Depot({ store, key })
})
afterAll(async () => {
  for (const cleanUp of cleanUps) await cleanUp()
  await depot?.[Symbol.asyncDispose]()
  await connection?.[Symbol.asyncDispose]()
  await cluster?.cleanUp()
})

const entryOf = (id: string, changes: object = {}) => ({
  ...{ host: 'hostile', epoch: 1, generation: 0, owner: 'o', state: 'standby', createdAt: 1 },
  row: {
    ...{ id, metadata: {}, limits: { memoryBytes: 1 }, volumes: [] },
    ...{ createdAt: 1, lastActiveAt: 1, stateSince: 1 },
  },
  ...changes,
})
const replicaOf = (snapshotId: string) => ({
  ...{ snapshotId, list: 'all-x-1', createdAt: '2026-01-01T00:00:00.000Z', needs: {} },
})

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  cleanUps.push(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('a directory', () => {
  test('leaves out entries that are forged or damaged, and refuses them when they are asked for', async () => {
    const { directory: bucket, key } = connection
    const [good, copied, garbled, escaping, rowless] = Array.from({ length: 5 }, newSandboxId) as [
      string,
      string,
      string,
      string,
      string,
    ]
    const unreadable: string[] = []
    const onUnreadable = (id: string) => unreadable.push(id)
    using entries = await Directory.open({ bucket, key, onUnreadable, check: checkEntry })
    const seal = (id: string, entry: object) => key.seal(JSON.stringify(entry), `directory ${id}`)
    await bucket.put(garbled, randomBytes(300))
    // The entry of another sandbox.
    await bucket.put(copied, seal(good, entryOf(good)))
    await bucket.put(escaping, seal(escaping, entryOf(escaping, { replica: replicaOf('../../../etc') })))
    await bucket.put('up/down', seal('up/down', entryOf('up/down')))
    await bucket.put(rowless, seal(rowless, entryOf(rowless, { row: { id: rowless, metadata: null } })))
    const replica = replicaOf(newSnapshotId())
    await bucket.put(good, seal(good, entryOf(good, { replica })))
    await expect.poll(() => entries.find(good)?.entry.replica).toEqual(replica)
    expect(unreadable.sort()).toEqual([copied, escaping, garbled, rowless, 'up/down'].sort())
    for (const id of unreadable) await expect(entries.read(id)).rejects.toThrow()
    // A collection that does not know what an entry refers to must remove nothing.
    await expect(entries.readAll()).rejects.toThrow()
    for (const id of [...unreadable, good]) await bucket.purge(id)
  })
})

describe('a depot', () => {
  const { storeOne, chunkObject } = {
    storeOne: async (content: Buffer) => (await depot.storeStream(Readable.from([content]))).chunks[0] ?? '',
    chunkObject: (name: string) => `chunk-${name}`,
  }

  test('gives out no chunk that is another one, is cut short, or has other bytes', async () => {
    const [one, other] = [await storeOne(randomBytes(90_000)), await storeOne(randomBytes(90_000))]
    const sealed = await store.find(chunkObject(one))
    if (sealed === undefined) throw new Error('there is no chunk')
    const wrong = [
      (await store.find(chunkObject(other))) ?? new Uint8Array(),
      sealed.subarray(0, sealed.length >> 1),
      sealed.subarray(0, 5),
      new Uint8Array(),
      connection.key.seal(Buffer.concat([Buffer.of(0), randomBytes(90_000)]), `chunk ${one.split('-')[0]}`),
    ]
    for (const bytes of wrong) {
      await store.put(chunkObject(one), bytes)
      await expect(depot.loadChunk(one)).rejects.toMatchObject({ code: 'snapshot_unusable' })
    }
    await store.put(chunkObject(one), sealed)
    expect(await depot.loadChunk(one)).toHaveLength(90_000)
  })

  test('expands nothing that is larger than a chunk or a list may be, and takes no name that is a path', async () => {
    const digest = connection.key.nameOf('bomb')
    const bomb = Buffer.concat([Buffer.of(1), brotliCompressSync(Buffer.alloc(64 * 1024 ** 2))])
    await store.put(`chunk-${digest}-1`, connection.key.seal(bomb, `chunk ${digest}`))
    await expect(depot.loadChunk(`${digest}-1`)).rejects.toMatchObject({
      ...{ code: 'snapshot_unusable', details: { reason: expect.stringContaining('larger than') } },
    })
    const list = connection.key.seal(deflateRawSync(Buffer.from('[1, 2')), 'list short-1')
    await store.put('list-short-1', list)
    await expect(depot.findList('short-1')).rejects.toThrow()
    for (const name of ['../../etc/passwd', 'a/b', '', '*', 'a.b'])
      await expect(depot.loadChunk(name)).rejects.toMatchObject({ code: 'snapshot_unusable' })
    await expect(depot.getList('../x')).rejects.toMatchObject({ code: 'snapshot_unusable' })
  })

  test('in S3 reads no answer that is larger than an object may be', async () => {
    let sent = 0
    const url = await serve((_, response) => {
      const piece = Buffer.alloc(1024 ** 2)
      const more = () => {
        while (sent < 512 * piece.length && !response.destroyed) {
          sent += piece.length
          if (!response.write(piece)) return response.once('drain', more)
        }
        return response.end()
      }
      more()
    })
    const s3 = new S3Store({ url: `${url}/depot`, region: 'x', accessKeyId: 'a', secretAccessKey: 'b' })
    await expect(s3.find('chunk-x-1')).rejects.toMatchObject({ code: 'cluster_unavailable' })
    expect(sent).toBeLessThan(64 * 1024 ** 2)
  })
})

describe('a host', () => {
  /** A record as if another host had joined, whose server is the test's. */
  async function join(listener: RequestListener): Promise<string> {
    const [own] = (await host.ok('/v1/nodes')).items
    const address = await serve(listener)
    const found = await connection.hosts.get(own.id)
    const record = { ...found?.json<object>(), id: `host-${randomBytes(5).toString('hex')}`, address }
    await connection.hosts.put(record.id, encodeHost(record as HostRecord, connection.key))
    await expect
      .poll(async () => (await host.ok('/v1/nodes')).items.map(({ id }: { id: string }) => id))
      .toContain(record.id)
    return record.id
  }

  test('does not follow a host record that no host of the cluster has written', async () => {
    const [own] = (await host.ok('/v1/nodes')).items
    const found = (await connection.hosts.get(own.id))?.string() ?? ''
    const forgeries = {
      // Without a signature, as versions before wrote them; with one of another record; as another host.
      'host-unsigned': found.replace(/,"signature":"[^"]*"/, '').replaceAll(own.id, 'host-unsigned'),
      'host-altered': found.replaceAll(own.id, 'host-altered'),
      'host-copied': found,
    }
    for (const [id, record] of Object.entries(forgeries)) await connection.hosts.put(id, record)
    const known = await join((_, response) => response.end('{}'))
    const ids = (await host.ok('/v1/nodes')).items.map(({ id }: { id: string }) => id)
    expect(ids.sort()).toEqual([own.id, known].sort())
  })

  test('survives answers of another host that are no JSON, of another shape, too large, or cut off', async () => {
    const asked: string[] = []
    const answers: RequestListener[] = [
      (_, response) => response.end('<html>'),
      (_, response) => response.end('{"items": 7, "keys": null}'),
      (_, response) => response.end('null'),
      (_, response) => {
        for (let index = 0; index < 80; index += 1) response.write(Buffer.alloc(1024 ** 2, 32))
        response.end()
      },
      (_, response) => {
        response.writeHead(200, { 'content-length': 1_000 })
        response.write('{"items": [')
        setTimeout(() => response.destroy(), 50)
      },
    ]
    let answer = answers[0] as RequestListener
    await join((request, response) => {
      asked.push(request.url ?? '')
      answer(request, response)
    })
    for (const one of answers) {
      answer = one
      const before = asked.length
      expect((await host.ok('/v1/usage')).sandboxes).toEqual([])
      expect((await host.ok('/v1/services')).items).toEqual([])
      expect(asked.length).toBe(before + 2)
    }
  })

  test('keeps following every bucket and the events after it has found damaged records there', async () => {
    const { directory, hosts, keys, names, state, jetstream } = connection
    const damaged = [
      ...[directory, names, state].map((bucket) => [bucket, newSandboxId()] as const),
      ...([
        [keys, 'key.damaged'],
        [hosts, 'host-damaged'],
      ] as const),
    ]
    for (const [bucket, name] of damaged) await bucket.put(name, randomBytes(64))
    await hosts.put('host-damaged', JSON.stringify({ id: 'host-damaged', address: 'not an address' }))
    await jetstream.publish('dormouse.events', randomBytes(64))
    const events = await host.fetch('/v1/events', { headers: { accept: 'application/x-ndjson' } })
    const { id } = await host.ok('/v1/sandboxes', { json: { name: 'after' } })
    const reader = events.body?.pipeThrough(new TextDecoderStream()).getReader()
    let seen = ''
    while (!seen.includes(id)) seen += (await reader?.read())?.value ?? ''
    await reader?.cancel()
    const listed = async () => (await host.ok('/v1/sandboxes')).items.map((item: { id: string }) => item.id)
    expect(await listed()).toEqual([id])
    // A start with them is possible, too.
    await host.kill()
    await host.begin()
    await expect.poll(() => listed().catch(() => [])).toEqual([id])
    await host.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })
})
