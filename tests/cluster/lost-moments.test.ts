import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SharedDeadline } from '@dormouse/async'
import {
  agreeOn,
  type ClusterConnection,
  ClusterKey,
  connectCluster,
  Directory,
  encodeHost,
  type HostDescription,
  JetStreamStore,
  Lease,
  Names,
} from '@dormouse/cluster'
import { newSandboxId, newSnapshotId } from '@dormouse/contracts'
import type { KV } from '@nats-io/kv'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Cluster } from '../../packages/server/src/cluster/cluster.ts'
import { OwnedSandboxes } from '../../packages/server/src/cluster/owned-sandboxes.ts'
import { TakeOver } from '../../packages/server/src/cluster/take-over.ts'
import { NatsServer } from './nats-server.ts'

const LEASE_MS = 1_500
const key = new ClusterKey(randomBytes(32))
let nats: NatsServer
let connection: ClusterConnection
let dataDir: string

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'dormouse-lost-moments-'))
  nats = await NatsServer.start()
  connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId: 'test' })
})
afterAll(async () => {
  await connection?.[Symbol.asyncDispose]()
  await nats?.cleanUp()
  await rm(dataDir, { recursive: true, force: true })
})

function describeHost(id: string, instance = id): HostDescription {
  return {
    ...{ id, address: '', version: '0', startedAt: '2026-01-01T00:00:00.000Z', instance, isCordoned: false },
    ...{ arch: 'x64', kernel: '6.12', abilities: {} },
    room: { memoryTotalBytes: 1, memoryFreeBytes: 1, diskTotalBytes: 1, diskFreeBytes: 1, cpus: 1 },
    load: { running: 0, sandboxes: 0, cpu: 0 },
  }
}

/** The same, but these members. */
function withMembers<Value extends object>(value: Value, members: Partial<Value>): Value {
  const get = (_: Value, name: string | symbol) => {
    const member: unknown = Reflect.get(name in members ? members : value, name)
    return typeof member === 'function' ? member.bind(value) : member
  }
  return new Proxy(value, { get })
}

/** A bucket that reads give other revisions in than its leader expects in a write. `isOver`: they agree again. */
function readOtherwise(bucket: KV, isOver = () => false): KV {
  const get = async (name: string) => {
    const entry = await bucket.get(name)
    const { revision = 0 } = entry ?? {}
    return entry && withMembers(entry, { revision: isOver() ? revision : revision + 1 })
  }
  return withMembers(bucket, { get })
}

describe('servers of NATS that number entries otherwise', () => {
  const refused = { code: 'cluster_unavailable' }

  test('do not let a host try without an end to take a lease', async () => {
    const options = {
      ...{ key, leaseMs: LEASE_MS, describe: () => describeHost('disagree'), onLost: () => {} },
      deadline: new SharedDeadline(),
    }
    const lease = await Lease.take({ ...options, hosts: connection.hosts })
    lease.abandon()
    await expect(Lease.take({ ...options, hosts: readOtherwise(connection.hosts) })).rejects.toMatchObject(
      refused,
    )
  })

  test('do not let a host try without an end to agree on a text or a name', async () => {
    const { keys, names: bucket } = connection
    const wanted = { mine: 'two', isGood: (text: string) => text === 'two' }
    await agreeOn({ bucket: keys, key }, 'text', { mine: 'one', isGood: () => true })
    await expect(agreeOn({ bucket: readOtherwise(keys), key }, 'text', wanted)).rejects.toMatchObject(refused)
    const of = { name: 'name', owner: 'owner' }
    const isGone = async () => false
    await new Names({ bucket, key, exists: isGone }).claim('sb-1', of)
    const names = new Names({ bucket: readOtherwise(bucket), key, exists: isGone })
    await expect(names.claim('sb-2', of)).rejects.toMatchObject(refused)
  })

  test('do not make a host take its own former lease for that of another server', async () => {
    const { hosts } = connection
    const options = { key, leaseMs: LEASE_MS, onLost: () => {}, deadline: new SharedDeadline() }
    const rebooted = (instance: string) => () => describeHost('rebooted', instance)
    const lease = await Lease.take({ ...options, hosts, describe: rebooted('before') })
    lease.abandon()
    let reads = 0
    const renumbered = readOtherwise(hosts, () => {
      reads += 1
      return reads > 1
    })
    const next = await Lease.take({ ...options, hosts: renumbered, describe: rebooted('after') })
    expect(next.epoch).toBe(lease.epoch + 1)
    next.abandon()
  })
})

test('an object that one server of NATS does not have is not missing', async () => {
  const { jetstream, manager } = connection
  const store = await JetStreamStore.open({ jetstream, manager, replicas: 1 })
  await store.put('there', Buffer.from('content'))
  const direct = withMembers(manager.direct, { getMessage: async () => null })
  const lagging = await JetStreamStore.open({
    ...{ jetstream, replicas: 1 },
    manager: withMembers(manager, { direct }),
  })
  await expect(lagging.find('there')).rejects.toMatchObject({ code: 'cluster_unavailable' })
  expect(await lagging.find('never')).toBeUndefined()
})

/** A member of the cluster whose sandboxes are not recovered yet. */
async function joinAs(hostId: string) {
  const found: { id: string; isDeleted: boolean; isLeaving?: boolean; delete: () => Promise<void> }[] = []
  const sandboxes = {
    all: () => found,
    isHere: (id: string) => found.some((one) => one.id === id && one.isLeaving !== true),
    find: (id: string) => found.find((one) => one.id === id),
  }
  const fence = new SharedDeadline()
  const shown = { url: '', ssh: undefined }
  const log = { error: () => {}, warn: () => {}, info: () => {} }
  const nothing = {
    ...{ rows: { all: () => [] }, lineage: { ancestorsOf: () => [] }, network: { shut: () => {} } },
  }
  const cluster = await Cluster.join({
    ...{ connection, shown, log, leaseMs: LEASE_MS, replicas: 1, dataDir, fence: fence.memory },
    rows: { hostId, isNew: false, isCordoned: false },
    describe: () => describeHost(hostId),
    depot: { s3Url: undefined, s3Region: '', cacheBytes: 1_000_000 },
    transfer: { interrupted: async () => [] },
    deps: { ...nothing, sandboxes },
  } as never)
  return { cluster, fence, found }
}

/** As another host does that has continued a sandbox and then deleted it. */
async function removeEntry({ directory }: Cluster, id: string): Promise<void> {
  const entry = {
    host: 'other',
    epoch: 1,
    generation: 1,
    owner: 'o',
    state: 'standby',
    createdAt: 1,
    row: {},
  }
  await directory.remove((await directory.add(id, entry)) as never)
}

/** As another host does when it has not seen a renewal for a lease time. */
async function endLease(id: string): Promise<void> {
  const record = { ...describeHost(id), epoch: 1, renewals: 0, hasLeft: false, fencedBy: 'other' }
  await connection.hosts.put(id, encodeHost(record, key))
}

describe('a lease that ends while its host starts', () => {
  test('is taken anew only when the sandboxes are there that may be another host’s', async () => {
    const { cluster, fence, found } = await joinAs('starts')
    expect(cluster.isHeld).toBe(true)
    expect(fence.hasPassed).toBe(false)
    await endLease('starts')
    await expect.poll(() => cluster.isHeld).toBe(false)
    await sleep(2 * LEASE_MS)
    expect(cluster.isHeld).toBe(false)
    expect(fence.hasPassed).toBe(true)

    // Recovery finds a sandbox that another host has continued and deleted meanwhile.
    const id = newSandboxId()
    await removeEntry(cluster, id)
    const wasHeld: boolean[] = []
    const remove = async () => {
      wasHeld.push(cluster.isHeld)
      found.pop()
    }
    const stuck = newSandboxId()
    await removeEntry(cluster, stuck)
    const fail = async () => {
      throw new Error('the disk is full')
    }
    found.push({ id: stuck, isDeleted: false, delete: fail }, { id, isDeleted: false, delete: remove })
    cluster.start()
    await expect.poll(() => cluster.isHeld, { timeout: 5 * LEASE_MS }).toBe(true)
    expect(wasHeld).toEqual([false])
    // One that cannot be removed yet does not hold back the others, and callers do not see it.
    expect(found).toMatchObject([{ id: stuck, isLeaving: true }])
    expect(cluster.isHere(stuck)).toBe(false)
    expect(fence.hasPassed).toBe(false)
    await cluster[Symbol.asyncDispose]()
  })
})

test('gates stay closed until a host with a new lease knows which sandboxes are its own', async () => {
  const fence = new SharedDeadline()
  const deadline = new SharedDeadline()
  const lease = await Lease.take({
    ...{ hosts: connection.hosts, key, leaseMs: LEASE_MS, deadline, fence, onLost: () => {} },
    describe: () => describeHost('fenced'),
  })
  await lease.renew()
  expect(lease.isHeld).toBe(true)
  expect(fence.hasPassed).toBe(true)
  lease.act()
  expect(fence.hasPassed).toBe(false)
  await sleep(LEASE_MS)
  expect(fence.hasPassed).toBe(false)
  await lease.leave()
  expect(fence.hasPassed).toBe(true)
})

test('a sandbox that was being fetched while its host had no lease is not its own', async () => {
  const id = newSandboxId()
  const replica = { snapshotId: newSnapshotId(), list: 'l', createdAt: '2026-01-01T00:00:00.000Z', needs: {} }
  const entry = { host: 'me', epoch: 1, generation: 0, owner: 'o', state: 'standby', createdAt: 1, replica }
  const located = { id, entry: { ...entry, head: replica.snapshotId, row: { limits: {} } }, revision: 1 }
  const owned = { epoch: 1 }
  const added: string[] = []
  const takeOver = new TakeOver({
    hostId: 'me',
    directory: {
      read: async () => located,
      change: async (before: typeof located, next: object) => ({ ...before, entry: next }),
    },
    hosts: { find: () => undefined, stateOf: () => 'alive', all: () => [{ id: 'me', room: {}, load: {} }] },
    owned,
    depot: { getList: async () => ({ parts: [] }) },
    transfer: {
      problemOf: () => undefined,
      arrivingBytes: () => 0,
      // The lease ends, and the next one is taken.
      import: async () => {
        owned.epoch += 1
      },
    },
    deps: {
      sandboxes: { find: () => undefined, isHere: () => false, add: () => added.push(id) },
      engine: { getSnapshot: async () => ({ sandboxId: id, createdAt: new Date() }) },
      clock: { wallMs: () => 0 },
      db: { transaction: () => added.push('rows') },
    },
    onFetched: () => {},
    isHeld: () => true,
  } as never)
  await expect(takeOver.bringHere(id)).rejects.toMatchObject({ code: 'host_unavailable' })
  expect(added).toEqual([])
})

test.each([true, false])(
  'a sandbox that is given away sleeps on until it is known who has it (it was given: %s)',
  async (isMade) => {
    const { directory: bucket, names } = connection
    using directory = await Directory.open({ bucket, key })
    const couldWake: boolean[] = []
    // The answer of NATS to the gift is lost.
    const change: Directory['change'] = async (before, entry) => {
      couldWake.push(owned.has(before.id))
      if (entry.host === 'me') return await directory.change(before, entry)
      if (isMade) await directory.change(before, entry)
      throw new Error('no answer')
    }
    const lost: string[] = []
    const owned = new OwnedSandboxes({
      ...{ directory: withMembers(directory, { change }), hostId: 'me', ancestorsOf: () => [] },
      names: new Names({ bucket: names, key, exists: async () => true }),
      onLost: (id) => void lost.push(id),
    })
    const id = newSandboxId()
    const entry = { host: 'me', epoch: 1, generation: 0, owner: 'o', state: 'standby', createdAt: 1, row: {} }
    const located = await directory.add(id, entry)
    if (located === undefined) throw new Error('there is an entry')
    owned.hold(located)
    await expect(owned.giveTo(id, { host: 'other', epoch: 1 })).rejects.toThrow('no answer')
    expect(owned.has(id)).toBe(false)
    await expect.poll(() => [owned.has(id), lost]).toEqual(isMade ? [false, [id]] : [true, []])
    expect(couldWake).toEqual([false, false])
    expect((await directory.read(id))?.entry.host).toBe(isMade ? 'other' : 'me')
  },
)
