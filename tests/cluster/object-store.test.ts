import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  ClusterKey,
  connectCluster,
  Depot,
  JetStreamStore,
  type ObjectStore,
  S3Store,
} from '@dormouse/cluster'
import S3rver from 's3rver'
import { afterAll, describe, expect, test } from 'vitest'
import { NatsServer } from './nats-server.ts'

const key = new ClusterKey(randomBytes(32))
const cleanUps: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp()
})

async function jetStreamStore(): Promise<ObjectStore> {
  const nats = await NatsServer.start()
  cleanUps.push(() => nats.cleanUp())
  const connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId: 'store' })
  cleanUps.push(async () => connection[Symbol.asyncDispose]())
  return JetStreamStore.open({ ...connection, replicas: 1 })
}

const CREDENTIALS = { region: 'us-east-1', accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' }

async function s3Url(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-s3-'))
  const server = new S3rver({
    ...{ port: 0, address: '127.0.0.1', silent: true, directory },
    configureBuckets: [{ name: 'depot', configs: [] }],
  })
  const { port } = (await server.run()) as AddressInfo
  cleanUps.push(async () => {
    await server.close()
    await rm(directory, { recursive: true, force: true })
  })
  return `http://127.0.0.1:${port}/depot`
}

const stores: Record<string, () => Promise<ObjectStore>> = {
  JetStream: jetStreamStore,
  S3: async () => new S3Store({ url: `${await s3Url()}/below/it`, ...CREDENTIALS }),
}

describe.each(Object.keys(stores))('a store in %s', (kind) => {
  test('puts, finds, lists and removes objects, and keeps the first if asked to', async () => {
    const store = await (stores[kind] as () => Promise<ObjectStore>)()
    expect(await store.find('a-1')).toBeUndefined()
    expect(await store.has('a-1')).toBe(false)
    expect(await store.put('a-1', Buffer.from('one'), { keepsFirst: true })).toBe(true)
    expect(await store.put('a-1', Buffer.from('two'), { keepsFirst: true })).toBe(false)
    expect(Buffer.from((await store.find('a-1')) ?? []).toString()).toBe('one')
    expect(await store.put('a-1', Buffer.from('three'))).toBe(true)
    expect(Buffer.from((await store.find('a-1')) ?? []).toString()).toBe('three')
    await store.put('b-2', randomBytes(900_000))
    const all: string[] = []
    for await (const { name } of store.list()) all.push(name)
    expect(all.sort()).toEqual(['a-1', 'b-2'])
    expect(Math.abs((await store.nowMs()) - Date.now())).toBeLessThan(60_000)
    await store.remove('a-1')
    await store.remove('never-there')
    expect(await store.has('a-1')).toBe(false)
    const depot = new Depot({ store, key })
    cleanUps.push(async () => depot[Symbol.asyncDispose]())
    const content = randomBytes(1_500_000)
    const { chunks } = await depot.storeStream(Readable.from([content]))
    const loaded: Uint8Array[] = []
    for await (const piece of depot.load(chunks)) loaded.push(piece)
    expect(Buffer.concat(loaded).equals(content)).toBe(true)
  })
})

test('a store in S3 refuses wrong credentials with a code, and lists more than one page', async () => {
  const url = await s3Url()
  const wrong = new S3Store({ url, ...CREDENTIALS, accessKeyId: 'wrong' })
  await expect(wrong.put('a-1', Buffer.from('x'))).rejects.toMatchObject({ code: 'cluster_unavailable' })
  const store = new S3Store({ url, ...CREDENTIALS })
  const names = Array.from({ length: 1_050 }, (_, index) => `o-${index}`)
  await Promise.all(names.map((name) => store.put(name, Buffer.from('x'))))
  const all: string[] = []
  for await (const { name } of store.list()) all.push(name)
  expect(all.sort()).toEqual(names.sort())
})
