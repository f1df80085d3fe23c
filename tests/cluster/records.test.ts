import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  BaseRecords,
  Claims,
  type ClusterConnection,
  ClusterKey,
  connectCluster,
  Depot,
  Directory,
  type Hosts,
  JetStreamStore,
  type JobMessage,
  JobStream,
  type Located,
  Names,
  SnapshotRecords,
} from '@dormouse/cluster'
import { newSandboxId } from '@dormouse/contracts'
import pino from 'pino'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { FollowedStream, type FollowStream } from '../../packages/cluster/src/followed-stream.ts'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { fetchedBases } from '../../packages/engine-linux/src/snapshot/fetched-bases.ts'
import { baseTransfer } from '../../packages/engine-linux/src/snapshot/transfer-bases.ts'
import { readFingerprint } from '../../packages/engine-linux/src/storage/fingerprint.ts'
import { SnapshotStore } from '../../packages/engine-linux/src/storage/snapshot-store.ts'
import type { VerifiedSnapshots } from '../../packages/engine-linux/src/storage/verify-snapshot.ts'
import { DepotUpkeep } from '../../packages/server/src/cluster/depot-upkeep.ts'
import { OwnedSandboxes } from '../../packages/server/src/cluster/owned-sandboxes.ts'
import { SharedBases } from '../../packages/server/src/cluster/shared-bases.ts'
import type { SnapshotCarrier } from '../../packages/server/src/cluster/snapshot-carrier.ts'
import { uploadPart } from '../../packages/server/src/cluster/upload-snapshot.ts'
import type { SandboxRow } from '../../packages/server/src/store/sandbox-rows.ts'
import { NatsServer } from './nats-server.ts'

const key = new ClusterKey(randomBytes(32))
let nats: NatsServer
let connection: ClusterConnection

beforeAll(async () => {
  nats = await NatsServer.start()
  connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId: 'test' })
})
afterAll(async () => {
  await connection?.[Symbol.asyncDispose]()
  await nats?.cleanUp()
})

const record = (list: string) => ({
  ...{ list, needs: {}, isKept: true, owner: 'o', sandboxId: 'sb-x', ancestors: [], createdAt: 1, row: {} },
})
const openRecords = (onRemoved: (id: string) => void = () => {}) =>
  SnapshotRecords.open({ bucket: connection.snapshots, key, onUnreadable: () => {} }, onRemoved)

test('the collection keeps what the record of a snapshot refers to, and takes it when the record is gone', async () => {
  const store = await JetStreamStore.open({ ...connection, replicas: 1 })
  const periodMs = 100
  await using depot = new Depot({ store, key, periodMs, clockMs: 0 })
  using directory = await Directory.open({ bucket: connection.directory, key })
  using records = await openRecords()
  const { chunks } = await depot.storeStream(Readable.from([randomBytes(100_000)]))
  const part = await depot.putList('part', { chunks })
  const list = await depot.putList('all', { parts: [{ key: 'part', list: part }] })
  await records.add('snap-kept', record(list))
  const unused = { hosts: {} as Hosts, transfer: {} as SnapshotCarrier, isHeld: () => true, hostId: 'test' }
  using upkeep = new DepotUpkeep({ ...unused, depot, directory, log: pino({ level: 'silent' }) })
  upkeep.snapshotLists = () => records.readLists()
  const laterThan = (await depot.period()) + 4
  while ((await depot.period()) < laterThan) await sleep(periodMs)
  expect(await upkeep.collect()).toMatchObject({ removed: 0 })
  expect(await depot.findList(list)).toBeDefined()
  // A record that cannot be read may refer to anything.
  await connection.snapshots.put('snap-damaged', randomBytes(100))
  await expect(upkeep.collect()).rejects.toThrow('snap-damaged')
  await connection.snapshots.delete('snap-damaged')
  await records.remove('snap-kept')
  expect(await upkeep.collect()).toMatchObject({ removed: 3 })
  expect(await depot.findList(list)).toBeUndefined()
})

test('the collection keeps a base that a snapshot needs, and takes it when nothing does', async () => {
  const store = await JetStreamStore.open({ ...connection, replicas: 1 })
  const periodMs = 100
  await using depot = new Depot({ store, key, periodMs, clockMs: 0 })
  using directory = await Directory.open({ bucket: connection.directory, key })
  const log = pino({ level: 'silent' })
  const needs = { template: { name: 'python', hash: 'abc', builtAt: '2026-01-01T00:00:00.000Z' } }
  const [base = ''] = baseTransfer({ dataDir: '/nowhere' }).neededBy(needs)
  const hosts = { all: () => [], find: () => undefined } as unknown as Hosts
  const upkeepOptions = { hosts, isHeld: () => true, hostId: 'test', depot, directory, log }
  const transfer = {} as SnapshotCarrier
  using upkeep = new DepotUpkeep({ ...upkeepOptions, transfer })
  using shared = await SharedBases.open({
    ...{ depot, log, unusedMs: 0, maxBytes: 0, bases: baseTransfer({ dataDir: '/nowhere' }) },
    cluster: { hosts, hostId: 'test', isHeld: false, directory, upkeep, connection },
  })
  transfer.bases = shared
  let needed = [needs]
  upkeep.snapshotNeeds = () => needed
  using others = await BaseRecords.open({ bucket: connection.keys, key, onUnreadable: () => {} })
  const { chunks } = await depot.storeStream(Readable.from([randomBytes(100_000)]))
  const list = await depot.putList('base', { chunks })
  await others.put(base, { list, arch: process.arch, host: 'other', uploadedAt: 1 })
  await expect.poll(() => shared.has(base, process.arch)).toBe(true)
  expect(shared.has(base, 'other')).toBe(false)
  const laterThan = (await depot.period()) + 4
  while ((await depot.period()) < laterThan) await sleep(periodMs)
  expect(await upkeep.collect()).toMatchObject({ removed: 0 })
  // A record that cannot be read may be of any list.
  await connection.keys.put('base.damaged', randomBytes(100))
  await expect(upkeep.collect()).rejects.toThrow('damaged')
  await connection.keys.delete('base.damaged')
  needed = []
  expect(await upkeep.collect()).toMatchObject({ removed: 2 })
  expect(await depot.findList(list)).toBeUndefined()
  await expect.poll(() => others.find(base)).toBeUndefined()
})

test('a host removes what it has fetched and needs no more, unless it may be the last copy', async () => {
  const root = await mkdtemp(join(tmpdir(), 'dormouse-bases-'))
  onTestFinished(() => rm(root, { recursive: true }))
  const [one, two] = [join(root, 'one'), join(root, 'two')]
  const tools = 'fedcba9876543210'
  await mkdir(join(one, 'tools/guest', tools, 'lib'), { recursive: true })
  await writeFile(join(one, 'tools/guest', tools, 'lib/libdormouse-guard.so'), 'guard')
  const layout = new Layout(two, two)
  for (const path of [layout.snapshotsDir, layout.burrowsDir]) await mkdir(path, { recursive: true })
  const store = new SnapshotStore(layout, {} as VerifiedSnapshots, async () => new Set())
  const objects = await JetStreamStore.open({ ...connection, replicas: 1 })
  await using depot = new Depot({ store: objects, key })
  using directory = await Directory.open({ bucket: connection.directory, key })
  using records = await BaseRecords.open({ bucket: connection.keys, key, onUnreadable: () => {} })
  const template = { name: 'python', hash: 'abc', builtAt: '2026-01-01T00:00:00.000Z' }
  const needs = { template, processes: { tools, criuVersion: '4.0', fingerprint: await readFingerprint() } }
  const base = `tools-${tools}`
  const { list } = await uploadPart(depot, await baseTransfer({ dataDir: one }).export(base))
  await records.put(base, { list, arch: process.arch, host: 'one', uploadedAt: 1 })
  const bases = {
    ...baseTransfer({ dataDir: two }),
    fetched: fetchedBases({ dataDir: two, store, host: { layout } }),
  }
  const hosts = { all: () => [], find: () => undefined } as unknown as Hosts
  const cluster = { hosts, hostId: 'two', isHeld: false, directory, upkeep: {} as DepotUpkeep, connection }
  const log = pino({ level: 'silent' })
  const open = (maxBytes: number) => SharedBases.open({ cluster, depot, bases, maxBytes, inUseMs: 0, log })
  const isHere = () => bases.isHere(base)
  using small = await open(0)
  await small.withBases(needs, async () => {
    await small.trim()
    expect(await isHere()).toBe(true)
  })
  await small.trim()
  expect(await isHere()).toBe(false)
  await small.withBases(needs, async () => expect(await isHere()).toBe(true))
  using large = await open(1024 ** 3)
  await large.trim()
  expect(await isHere()).toBe(true)
  const entry = { host: 'one', epoch: 1, generation: 0, owner: 'o', state: 'standby', createdAt: 1, row: {} }
  const replica = { snapshotId: 'sn-x', list: 'l', createdAt: '2026-01-01T00:00:00.000Z', needs }
  const added = await directory.add('sb-x', { ...entry, replica })
  await records.remove(base)
  await expect.poll(() => large.has(base, process.arch)).toBe(false)
  for (const host of [small, large]) await host.trim()
  expect(await isHere()).toBe(true)
  await directory.remove(added as NonNullable<typeof added>)
  await large.trim()
  expect(await isHere()).toBe(false)
})

test('a name that a sandbox was about to get is free again when its host was lost before that', async () => {
  using directory = await Directory.open({ bucket: connection.directory, key })
  const names = new Names({
    bucket: connection.names,
    key,
    exists: async (id) => !!(await directory.read(id)),
  })
  const hostOf = (hostId: string) => {
    const owned = new OwnedSandboxes({ directory, names, hostId, ancestorsOf: () => [], onLost: () => {} })
    owned.epoch = 1
    return owned
  }
  const [one, two] = [hostOf('one'), hostOf('two')]
  const row = {
    id: newSandboxId(),
    owner: 'key-x',
    state: 'standby',
    createdAt: 1,
    name: 'before',
  } as SandboxRow
  await one.claim(row)
  const after = { owner: row.owner, name: 'after' }
  await one.claimName(row, 'after')
  expect(await names.find(after)).toBe(row.id)
  // The host is lost here. Another one continues the sandbox with the row of before.
  const located = (await directory.read(row.id)) as Located
  const taken = await directory.change(located, { ...located.entry, host: 'two' })
  two.hold(taken as Located)
  await two.settleName(row)
  expect(await names.find(after)).toBeUndefined()
  expect(await names.find({ owner: row.owner, name: 'before' })).toBe(row.id)
  expect((await directory.read(row.id))?.entry.nextName).toBeUndefined()
  // With the row of after, the sandbox keeps it.
  await two.claimName(row, 'after')
  await two.settleName({ ...row, name: 'after' })
  expect(await names.find(after)).toBe(row.id)
  // A name of another sandbox is refused, and leaves no trace.
  const other = { ...row, id: newSandboxId(), name: undefined } as SandboxRow
  await two.claim(other)
  await expect(two.claimName(other, 'after')).rejects.toMatchObject({ code: 'name_taken' })
  expect((await directory.read(other.id))?.entry.nextName).toBeUndefined()
  await two.claimName(other, 'third')
  await two.returnName(other, 'third')
  expect(await names.find({ owner: row.owner, name: 'third' })).toBeUndefined()
})

test('every host hears of a record, of its change and of its end', async () => {
  const removed: string[] = []
  using one = await openRecords()
  using two = await openRecords((id) => removed.push(id))
  expect(await one.add('snap-a', record('a'))).toBe(true)
  expect(await two.add('snap-a', record('b'))).toBe(false)
  await expect.poll(() => two.find('snap-a')?.list).toBe('a')
  await two.change('snap-a', { ...record('a'), name: 'good' })
  await expect.poll(() => one.find('snap-a')?.name).toBe('good')
  await one.remove('snap-a')
  await expect.poll(() => removed).toContain('snap-a')
  expect([two.find('snap-a'), await two.wasRemoved('snap-a')]).toEqual([undefined, true])
})

test('commands for jobs come in one order, in pieces if they are large, and damaged ones are empty', async () => {
  const options = { ...connection, replicas: 1 }
  await using stream = await JobStream.open(options)
  await using reader = await JobStream.open(options)
  const text = JSON.stringify('\u{1f42d}'.repeat(400_000))
  await stream.append({ jobId: 'job-a', command: 'first', text: '"small"' })
  await stream.append({ jobId: 'job-b', command: 'second', text })
  await connection.jetstream.publish('dormouse.jobs.job-a', randomBytes(50))
  const seen: JobMessage[] = []
  await reader.follow({ afterSeq: 0, lastSeq: 1 }, async (message) => {
    seen.push(message)
  })
  await expect.poll(() => seen.at(-1)?.content).toBe('')
  expect(seen.map(({ jobId }) => jobId)).toEqual(['job-a', ...seen.slice(1, -1).map(() => 'job-b'), 'job-a'])
  const pieces = seen.slice(1, -1)
  expect(pieces.length).toBe(pieces[0]?.pieces)
  const bytes = Buffer.concat(pieces.map(({ content }) => Buffer.from(content, 'base64')))
  expect(bytes.toString()).toBe(text)
  expect(await stream.append({ jobId: 'job-a', command: 'x', text: '1' }, { isFirst: true })).toBe(false)
  await stream.purge('job-a')
  const { jobs, lastSeq, newestSeq } = await stream.info()
  expect([...jobs]).toEqual(['job-b'])
  expect(newestSeq).toBeLessThan(lastSeq)
})

test('a reader of the log that falls silent, ends or fails is replaced, and every message is told once', async () => {
  await using stream = await JobStream.open({ ...connection, key, replicas: 1 })
  const append = (command: string) => stream.append({ jobId: 'job-followed', command, text: '{}' })
  const { lastSeq } = await stream.info()
  const endings = [new Promise<never>(() => {}), { done: true }, Promise.reject(new Error('lost'))]
  endings[2]?.catch?.(() => {})
  let readers = 0
  const get = async (...args: Parameters<typeof connection.jetstream.consumers.get>) => {
    readers += 1
    const ending = endings.shift()
    if (ending === undefined) return await connection.jetstream.consumers.get(...args)
    const messages = { [Symbol.asyncIterator]: () => ({ next: () => ending }), close: async () => {} }
    return { consume: async () => messages }
  }
  const told: number[] = []
  await using _ = await FollowedStream.start({
    ...{ manager: connection.manager, stream: 'dormouse-jobs', subject: 'dormouse.jobs.*', silentMs: 50 },
    ...{ jetstream: { consumers: { get } } as unknown as FollowStream['jetstream'], afterSeq: lastSeq },
    onMessage: async ({ seq }) => {
      await sleep(20)
      told.push(seq - lastSeq)
    },
  })
  for (const command of ['one', 'two', 'three']) await append(command)
  await expect.poll(() => told, { timeout: 10_000 }).toEqual([1, 2, 3])
  expect(readers).toBe(4)
  await append('four')
  await expect.poll(() => told).toEqual([1, 2, 3, 4])
  await sleep(300)
  // Nothing is missing, so the reader stays.
  expect(readers).toBe(4)
})

test('a claim is the first host’s, until another one takes it from a host that is lost', async () => {
  const of = (hostId: string) => new Claims({ bucket: connection.claims, key, hostId })
  const [one, two, three] = [of('one'), of('two'), of('three')]
  expect([await one.claim('x'), await two.claim('x'), await one.claim('x')]).toEqual([true, false, true])
  expect(await two.takeOver('x', async () => false)).toBe(false)
  const isOne = async (holder: string) => holder === 'one'
  const taken = await Promise.all([two.takeOver('x', isOne), three.takeOver('x', isOne)])
  expect(taken.filter(Boolean)).toHaveLength(1)
  expect([await one.claim('x'), await two.takeOver('never claimed', isOne)]).toEqual([false, false])
})

test('a host that starts does not wait for messages that were removed, or that NATS does not tell', async () => {
  await using stream = await JobStream.open({ ...connection, key, replicas: 1 })
  const { lastSeq } = await stream.info()
  await stream.append({ jobId: 'job-removed', command: 'removed', text: '{}' })
  await stream.purge('job-removed')
  const options = { stream: 'dormouse-jobs', subject: 'dormouse.jobs.*', onMessage: () => {}, silentMs: 50 }
  const { jetstream, manager } = connection
  await using followed = await FollowedStream.start({ ...options, jetstream, manager, afterSeq: lastSeq })
  await followed.tells(lastSeq + 1)
  const getMessage = () => Promise.reject(new Error('there is no leader'))
  const leaderless = { streams: { getMessage } } as unknown as FollowStream['manager']
  await using silent = await FollowedStream.start({
    ...options,
    ...{ jetstream, manager: leaderless, afterSeq: lastSeq + 1 },
  })
  await expect(silent.tells(lastSeq + 2)).rejects.toMatchObject({ code: 'cluster_unavailable' })
})
