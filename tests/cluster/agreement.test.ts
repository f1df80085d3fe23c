import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DeadlineClock, hostDeadlineClock, SharedDeadline } from '@dormouse/async'
import {
  ClusterKey,
  connectCluster,
  Depot,
  Directory,
  type HostDescription,
  Hosts,
  JetStreamStore,
  Lease,
  Names,
} from '@dormouse/cluster'
import type { KV, KvWatchOptions } from '@nats-io/kv'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { NatsServer } from './nats-server.ts'

const LEASE_MS = 1_500
let nats: NatsServer
const key = new ClusterKey(randomBytes(32))
const opened: AsyncDisposable[] = []

beforeAll(async () => {
  nats = await NatsServer.start()
})
afterAll(async () => {
  for (const one of opened) await one[Symbol.asyncDispose]()
  await nats.cleanUp()
})

async function connect(hostId: string) {
  const connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId })
  opened.push(connection)
  return connection
}

/** As when the one NATS server is gone that kept the places of the watches. Their clients hear nothing of it. */
async function loseWatches(bucket: string): Promise<void> {
  const { manager } = await connect('loser')
  for await (const { name } of manager.consumers.list(`KV_dormouse-${bucket}`))
    await manager.consumers.delete(`KV_dormouse-${bucket}`, name)
}

/** A bucket whose watch hears from a server of NATS that numbers entries otherwise than the leader does. */
function numberedOtherwise(bucket: KV, by: number): KV {
  const watch = async (options: KvWatchOptions) => {
    const entries = await bucket.watch(options)
    async function* renumbered() {
      for await (const entry of entries) {
        const { key, value, operation, delta, revision } = entry
        yield { key, value, operation, delta, revision: revision + by }
      }
    }
    return Object.assign(renumbered(), { stop: () => entries.stop() })
  }
  const get = (_: KV, name: string) => {
    if (name === 'watch') return watch
    const member = bucket[name as keyof KV] as unknown
    return typeof member === 'function' ? member.bind(bucket) : member
  }
  return new Proxy(bucket, { get } as ProxyHandler<KV>)
}

/** Clocks that run faster or slower than those of this machine. The wall clock is years away. */
function clockAt(speed: number): DeadlineClock {
  const beganMs = performance.now()
  const passedMs = () => (performance.now() - beganMs) * speed
  return { monotonicMs: () => passedMs() + 1e6, wallMs: () => passedMs() + 1e12 * speed }
}

function describeHost(id: string, instance: string): HostDescription {
  return {
    ...{ id, address: '', version: '0', startedAt: '2026-01-01T00:00:00.000Z', instance, isCordoned: false },
    ...{ arch: 'x64', kernel: '6.12', abilities: {} },
    room: { memoryTotalBytes: 1, memoryFreeBytes: 1, diskTotalBytes: 1, diskFreeBytes: 1, cpus: 1 },
    load: { running: 0, sandboxes: 0, cpu: 0 },
  }
}

async function takeLease(id: string, { instance = id, onLost = () => {}, clock = hostDeadlineClock } = {}) {
  const connection = await connect(id)
  const deadline = new SharedDeadline(undefined, clock)
  const lease = await Lease.take({
    ...{ hosts: connection.hosts, key, leaseMs: LEASE_MS, deadline, onLost, clock },
    describe: () => describeHost(id, instance),
  })
  return { connection, lease, deadline }
}

const entry = (host: string) => ({
  ...{ host, epoch: 1, generation: 0, owner: 'o', state: 'standby', createdAt: 1, row: {} },
})

describe('a lease', () => {
  test('cannot be ended by another host while its host renews it', async () => {
    const { lease } = await takeLease('renews')
    const { hosts: bucket, keys } = await connect('watcher-1')
    using hosts = await Hosts.open({ hosts: bucket, keys, key, leaseMs: LEASE_MS, id: 'watcher-1' })
    await sleep(2 * LEASE_MS)
    expect(hosts.stateOf('renews')).toBe('alive')
    expect(await hosts.end('renews', lease.epoch)).toBe(false)
    expect(lease.isHeld).toBe(true)
    await lease.leave()
    await expect.poll(() => hosts.stateOf('renews')).toBe('left')
  })

  test('that has ended shows its host as seen lately until that time is over', async () => {
    const { lease } = await takeLease('gone')
    let nowMs = 1_000
    const clock = { ...hostDeadlineClock, monotonicMs: () => nowMs }
    const { hosts: bucket, keys } = await connect('watcher-0')
    using hosts = await Hosts.open({ hosts: bucket, keys, key, leaseMs: LEASE_MS, id: 'watcher-0', clock })
    await lease.leave()
    await expect.poll(() => hosts.stateOf('gone')).toBe('left')
    const isSeen = () => hosts.seenWithin(60_000).some(({ id }) => id === 'gone')
    nowMs += 59_000
    expect(isSeen()).toBe(true)
    nowMs += 2_000
    expect(isSeen()).toBe(false)
  })

  test.each([-1, 1])('is ended when a server of NATS numbers records otherwise (%i)', async (by) => {
    const id = `numbered${by}`
    const { lease } = await takeLease(id)
    const { hosts: bucket, keys } = await connect(`watcher-${id}`)
    const hosts = numberedOtherwise(bucket, by)
    using seen = await Hosts.open({ hosts, keys, key, leaseMs: LEASE_MS, id: `watcher-${id}` })
    expect(await seen.end(id, lease.epoch)).toBe(false)
    lease.abandon()
    await expect.poll(() => seen.end(id, lease.epoch), { timeout: 5 * LEASE_MS }).toBe(true)
  })

  test('has passed on its own host before another host may end it, and is then taken anew', async () => {
    let lostAt = 0
    const onLost = () => {
      lostAt = performance.now()
    }
    const { connection, lease, deadline } = await takeLease('cut', { onLost })
    const { hosts: bucket, keys } = await connect('watcher-2')
    using hosts = await Hosts.open({ hosts: bucket, keys, key, leaseMs: LEASE_MS, id: 'watcher-2' })
    // The link of the host is cut.
    await connection[Symbol.asyncDispose]()
    await expect.poll(() => hosts.end('cut', lease.epoch), { interval: 20 }).toBe(true)
    const endedAt = performance.now()
    expect(deadline.hasPassed).toBe(true)
    expect(lostAt).toBeGreaterThan(0)
    expect(lostAt).toBeLessThan(endedAt)
    const next = await takeLease('cut')
    expect(next.lease.epoch).toBe(lease.epoch + 1)
    await next.lease.leave()
  })

  test('has passed before another host may end it, with clocks that are years apart and run at other speeds', async () => {
    const { connection, lease, deadline } = await takeLease('skewed', { clock: clockAt(0.92) })
    const { hosts: bucket, keys } = await connect('watcher-3')
    using hosts = await Hosts.open({
      ...{ hosts: bucket, keys, key, leaseMs: LEASE_MS, id: 'watcher-3', clock: clockAt(1.08) },
    })
    await sleep(LEASE_MS)
    expect(hosts.stateOf('skewed')).toBe('alive')
    await connection[Symbol.asyncDispose]()
    // The slow host has stopped whenever the fast one may act.
    await expect
      .poll(
        () => {
          const isOver = hosts.stateOf('skewed') === 'lost'
          if (isOver) expect(deadline.hasPassed).toBe(true)
          return isOver
        },
        { interval: 5 },
      )
      .toBe(true)
    expect(await hosts.end('skewed', lease.epoch)).toBe(true)
  })

  test('keeps its host alive for others when NATS has lost what their watch relied on', async () => {
    const { lease } = await takeLease('heard')
    const { hosts: bucket, keys } = await connect('watcher-4')
    using hosts = await Hosts.open({ hosts: bucket, keys, key, leaseMs: LEASE_MS, id: 'watcher-4' })
    await expect.poll(() => hosts.stateOf('heard')).toBe('alive')
    const renewals = () => hosts.find('heard')?.renewals ?? 0
    await loseWatches('hosts')
    const before = renewals()
    await expect.poll(renewals, { timeout: 2 * LEASE_MS }).toBeGreaterThan(before + 1)
    expect(hosts.stateOf('heard')).toBe('alive')
    await lease.leave()
  })

  test('of an earlier version is known until all hosts have signed their records for an hour', async () => {
    const nats = await NatsServer.start()
    const connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId: 'signs' })
    opened.push({ [Symbol.asyncDispose]: () => nats.cleanUp() }, connection)
    const { hosts: bucket, keys } = connection
    const record = (id: string) =>
      JSON.stringify({ ...describeHost(id, id), epoch: 1, renewals: 0, hasLeft: false })
    await bucket.put('older', record('older'))
    let nowMs = 1_000
    const clock = { ...hostDeadlineClock, monotonicMs: () => nowMs }
    using hosts = await Hosts.open({
      hosts: bucket,
      keys,
      key,
      leaseMs: LEASE_MS,
      id: 'signs',
      clock,
      lookMs: 20,
    })
    expect(hosts.stateOf('older')).toBe('alive')
    nowMs += 3_500_000
    await bucket.put('late', record('late'))
    await expect.poll(() => hosts.stateOf('late')).toBe('alive')
    nowMs += 3_500_000
    // Nothing is refused yet: a host without signatures was there an hour ago.
    await sleep(100)
    expect(hosts.find('older')?.fencedBy).toBeUndefined()
    nowMs += 200_000
    await expect.poll(() => hosts.find('older')?.fencedBy).toBe('signs')
    await expect.poll(() => hosts.find('late')?.fencedBy).toBe('signs')
    await bucket.put('forged', record('forged'))
    using again = await Hosts.open({ hosts: bucket, keys, key, leaseMs: LEASE_MS, id: 'signs' })
    for (const one of [hosts, again]) expect(one.all().map(({ id }) => id)).toEqual(['late', 'older'])
  })

  test('is refused to a copy of a data directory whose original is alive', async () => {
    const { lease } = await takeLease('copied')
    await expect(takeLease('copied', { instance: 'elsewhere' })).rejects.toMatchObject({ code: 'conflict' })
    expect(lease.isHeld).toBe(true)
    await lease.leave()
  })
})

describe('the directory', () => {
  test('is changed by compare-and-set only: one of two writers wins', async () => {
    const one = await connect('d-1')
    const two = await connect('d-2')
    using first = await Directory.open({ bucket: one.directory, key })
    using second = await Directory.open({ bucket: two.directory, key })
    const added = await first.add('sb-a', entry('one'))
    expect(await second.add('sb-a', entry('two'))).toBeUndefined()
    const seen = await second.read('sb-a')
    if (added === undefined || seen === undefined) throw new Error('there is no entry')
    const outcomes = await Promise.all([first.change(added, entry('one')), second.change(seen, entry('two'))])
    expect(outcomes.filter((outcome) => outcome !== undefined)).toHaveLength(1)
    const winner = outcomes.find((outcome) => outcome !== undefined)
    expect((await first.read('sb-a'))?.entry.host).toBe(winner?.entry.host)
    expect(await first.remove(added)).toBe(false)
  })

  test('does not take an entry again that was removed: a deleted sandbox never returns', async () => {
    using directory = await Directory.open({ bucket: (await connect('r-1')).directory, key })
    const added = await directory.add('sb-removed', entry('one'))
    expect(added && (await directory.remove(added))).toBe(true)
    expect(await directory.add('sb-removed', entry('two'))).toBeUndefined()
    expect(await directory.read('sb-removed')).toBeUndefined()
    expect(await directory.wasRemoved('sb-removed')).toBe(true)
  })

  test('says whether an acknowledged change still counts', async () => {
    using first = await Directory.open({ bucket: (await connect('s-1')).directory, key })
    using second = await Directory.open({ bucket: (await connect('s-2')).directory, key })
    const claimed = await first.add('sb-s', entry('one'))
    const seen = await second.read('sb-s')
    if (claimed === undefined || seen === undefined) throw new Error('there is no entry')
    expect(await first.stands(claimed)).toBe(true)
    const replaced = await second.change(seen, entry('two'))
    if (replaced === undefined) throw new Error('it was not replaced')
    expect(await first.stands(claimed)).toBe(false)
    expect(await second.stands(replaced)).toBe(true)
  })

  test('catches up when NATS has lost what its watch relied on', async () => {
    using first = await Directory.open({ bucket: (await connect('l-1')).directory, key })
    using second = await Directory.open({ bucket: (await connect('l-2')).directory, key })
    await loseWatches('directory')
    await first.add('sb-lost', entry('one'))
    await second.catchUp()
    expect(second.find('sb-lost')?.entry.host).toBe('one')
  })

  test('has in memory once what hosts need for many sandboxes', async () => {
    using writer = await Directory.open({ bucket: (await connect('s-1')).directory, key })
    for (const id of ['sb-shares', 'sb-shares-too']) {
      const needs = { flags: ['avx', 'sse'] }
      const replica = { snapshotId: 'sn-1', list: 'all', createdAt: '2026-01-01T00:00:00.000Z', needs }
      await writer.add(id, { ...entry('one'), replica })
    }
    using reader = await Directory.open({ bucket: (await connect('s-2')).directory, key })
    for (const directory of [writer, reader]) {
      const needsOf = (id: string) => directory.find(id)?.entry.replica?.needs
      expect(needsOf('sb-shares')).toEqual({ flags: ['avx', 'sse'] })
      expect(needsOf('sb-shares')).toBe(needsOf('sb-shares-too'))
    }
  })

  test.each([-1, 1])('is changed when a server of NATS numbers its entries otherwise (%i)', async (by) => {
    const { directory: bucket } = await connect(`n-${by}`)
    const writer = await Directory.open({ bucket, key })
    using _writer = writer
    using directory = await Directory.open({ bucket: numberedOtherwise(bucket, by), key })
    const id = `sb-numbered${by}`
    await writer.add(id, entry('one'))
    await directory.catchUp()
    const told = directory.find(id)
    if (told === undefined) throw new Error('it was not told')
    expect(await directory.change(told, entry('two'))).toBeUndefined()
    const read = await directory.read(id)
    const claimed = read && (await directory.change(read, entry('two')))
    if (claimed === undefined) throw new Error('it cannot be changed')
    expect(await directory.stands(claimed)).toBe(true)
    await writer.change(claimed, entry('three'))
    expect(await directory.stands(claimed)).toBe(false)
  })

  test('cannot be read with another key', async () => {
    const other = new ClusterKey(randomBytes(32))
    await expect(
      connectCluster({ servers: [nats.url], replicas: 1, key: other, hostId: 'x' }),
    ).rejects.toMatchObject({ code: 'setup_failed' })
  })

  test('gives a name to one sandbox, and again when that one is gone', async () => {
    const { names: bucket } = await connect('n')
    const there = new Set(['sb-1', 'sb-2'])
    const names = new Names({ bucket, key, exists: async (id) => there.has(id) })
    const of = { name: 'one', owner: 'key' }
    const claims = await Promise.all([names.claim('sb-1', of), names.claim('sb-2', of)])
    expect(new Set(claims).size).toBe(1)
    there.delete(claims[0])
    expect(await names.claim('sb-3', of)).toBe('sb-3')
    await names.release('sb-2', of)
    expect(await names.find(of)).toBe('sb-3')
  })
})

async function openDepot(hostId: string) {
  const { jetstream, manager } = await connect(hostId)
  const store = await JetStreamStore.open({ jetstream, manager, replicas: 1 })
  const depot = new Depot({ store, key })
  opened.push(depot)
  return { depot, store }
}

describe('the depot', () => {
  test('returns what was stored, and sends what is there already only once', async () => {
    const { depot } = await openDepot('depot')
    const content = Buffer.concat([randomBytes(3_000_000), Buffer.alloc(2_000_000)])
    const first = await depot.storeStream(Readable.from([content]))
    expect(first.sentBytes).toBeGreaterThan(3_000_000)
    const { depot: again } = await openDepot('depot-again')
    expect(await again.storeStream(Readable.from([content]))).toMatchObject({
      ...{ chunks: first.chunks, sentBytes: 0 },
    })
    const loaded: Uint8Array[] = []
    for await (const piece of depot.load(first.chunks)) loaded.push(piece)
    expect(Buffer.concat(loaded).equals(content)).toBe(true)
    await expect(depot.load(['0'.repeat(48)]).next()).rejects.toMatchObject({ code: 'snapshot_unusable' })
  })

  test('notices a chunk that was changed', async () => {
    const { depot, store } = await openDepot('damage')
    const { chunks } = await depot.storeStream(Readable.from([randomBytes(1000)]))
    await store.put(`chunk-${chunks[0]}`, randomBytes(1028))
    await expect(depot.load(chunks).next()).rejects.toMatchObject({ code: 'snapshot_unusable' })
  })

  test('keeps a list that is longer than a message of NATS', async () => {
    const { depot } = await openDepot('long-list')
    const list = Array.from({ length: 60_000 }, () => randomBytes(24).toString('hex'))
    const name = await depot.putList('long', list)
    expect(await depot.getList(name)).toEqual(list)
    await expect(depot.getList('none-1')).rejects.toMatchObject({ code: 'snapshot_unusable' })
  })
})
