import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hostDeadlineClock, SharedDeadline } from '@dormouse/async'
import {
  backUpCluster,
  ClusterKey,
  connectCluster,
  type HostDescription,
  Hosts,
  Lease,
  restoreCluster,
  StateFormat,
  StateRecords,
} from '@dormouse/cluster'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Closing } from '../../packages/server/src/host/closing.ts'
import { NatsServer } from './nats-server.ts'

const LEASE_MS = 1_500
const LOOK_MS = 20
const MINUTE_MS = 60_000
const key = new ClusterKey(randomBytes(32))
const PATIENCE = { timeout: 10 * LEASE_MS, interval: 20 }

let nats: NatsServer
let open: Closing
/** How far the clocks of the hosts are ahead, by which they count hours. */
let aheadMs = 0

beforeEach(async () => {
  nats = await NatsServer.start()
  open = new Closing()
  defer(() => nats.cleanUp())
  aheadMs = 0
})
afterEach(() => open[Symbol.asyncDispose]())

const defer = (close: () => unknown) => open.use({ [Symbol.asyncDispose]: async () => void (await close()) })

const connect = async (newestFormat: number, to = nats) =>
  open.use(await connectCluster({ servers: [to.url], replicas: 1, key, hostId: 'host', newestFormat }))

/** A host that reads formats up to this one. */
async function joinAs(id: string, reads: number) {
  const { hosts: bucket, keys, state } = await connect(reads)
  const describe = (): HostDescription => ({
    ...{ id, address: '', version: '0', startedAt: '2026-01-01T00:00:00.000Z', isCordoned: false },
    ...{ instance: id, arch: 'x64', kernel: '6.12', abilities: {} },
    ...(reads > 1 && { stateFormat: reads }),
    room: { memoryTotalBytes: 1, memoryFreeBytes: 1, diskTotalBytes: 1, diskFreeBytes: 1, cpus: 1 },
    load: { running: 0, sandboxes: 0, cpu: 0 },
  })
  const deadline = new SharedDeadline()
  const clock = { ...hostDeadlineClock, monotonicMs: () => hostDeadlineClock.monotonicMs() + aheadMs }
  const hosts = open.use(await Hosts.open({ hosts: bucket, keys, key, leaseMs: LEASE_MS, id, clock }))
  const lease = await Lease.take({
    hosts: bucket,
    key,
    describe,
    leaseMs: LEASE_MS,
    deadline,
    onLost: () => {},
  })
  defer(() => lease.abandon())
  const format = await StateFormat.open({ keys, newest: reads, lookMs: LOOK_MS })
  const following = open.use(format.follow(hosts))
  const rows: unknown[] = []
  const unreadable: string[] = []
  const records = open.use(
    await StateRecords.open(
      { bucket: state, key, newId: 'state', format },
      {
        put: ({ row }) => rows.push(row),
        removed: () => {},
        unreadable: (name) => unreadable.push(name),
      },
    ),
  )
  const leave = async () => {
    following[Symbol.dispose]()
    await lease.leave()
  }
  return { keys, hosts, format, records, rows, unreadable, leave }
}

const inForce = async ({ keys }: { keys: { get: (name: string) => Promise<{ string(): string } | null> } }) =>
  (await keys.get('format'))?.string()
const untilLeft = ({ hosts }: { hosts: Hosts }, id: string) =>
  expect.poll(() => hosts.stateOf(id), PATIENCE).toBe('left')
/** Long enough for many looks, and for a host that has heard nothing to know all others again. */
const manyLooks = () => sleep(2 * LEASE_MS)

test('a newer host writes the older format until no older host was seen for an hour', async () => {
  const older = await joinAs('older', 1)
  const newer = await joinAs('newer', 2)
  await newer.records.put({ table: 'secrets', key: 'one', row: { value: 1 } })
  await expect.poll(() => older.rows).toEqual([{ value: 1 }])
  // It is alive, and may start again at any time.
  aheadMs += 61 * MINUTE_MS
  await manyLooks()
  expect(await inForce(newer)).toBe('1')
  await older.leave()
  await untilLeft(newer, 'older')
  aheadMs += 58 * MINUTE_MS
  await manyLooks()
  expect(await inForce(newer)).toBe('1')
  await connect(1)
  aheadMs += 3 * MINUTE_MS
  await expect.poll(() => newer.format.written, PATIENCE).toBe(2)
  await expect(connect(1)).rejects.toMatchObject({
    code: 'setup_failed',
    message: expect.stringContaining('in format 2; this version knows formats up to 1'),
  })
  await newer.records.put({ table: 'secrets', key: 'two', row: { value: 2 } })
  await expect.poll(() => older.unreadable).toHaveLength(1)
  expect(older.rows).toHaveLength(1)
})

test('a host that was upgraded counts as older for an hour', async () => {
  const observer = await joinAs('observer', 2)
  await observer.keys.put('format', '1')
  const before = await joinAs('upgraded', 1)
  aheadMs += 61 * MINUTE_MS
  await manyLooks()
  await before.leave()
  await untilLeft(observer, 'upgraded')
  await joinAs('upgraded', 2)
  await manyLooks()
  expect(await inForce(observer)).toBe('1')
  aheadMs += 61 * MINUTE_MS
  await expect.poll(() => observer.format.written, PATIENCE).toBe(2)
})

test('an older host that joined while another one raised the format can still read what is written', async () => {
  const newer = await joinAs('newer', 2)
  await newer.keys.put('format', '1')
  const older = await joinAs('older', 1)
  await newer.keys.put('format-written', '1')
  await newer.keys.put('format', '2')
  aheadMs += 61 * MINUTE_MS
  await manyLooks()
  expect(newer.format.written).toBe(1)
  await newer.records.put({ table: 'secrets', key: 'one', row: { value: 1 } })
  await expect.poll(() => older.rows).toEqual([{ value: 1 }])
  // It cannot have its next lease.
  await expect(older.format.require()).rejects.toMatchObject({ code: 'setup_failed' })
  await older.leave()
  await untilLeft(newer, 'older')
  aheadMs += 61 * MINUTE_MS
  await expect.poll(() => newer.format.written, PATIENCE).toBe(2)
})

test('a command of a newer version raises nothing, and an older version restores its backup', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-format-'))
  defer(() => rm(directory, { recursive: true, force: true }))
  const older = await joinAs('older', 1)
  await older.records.put({ table: 'secrets', key: 'one', row: { value: 1 } })
  const operator = await connect(2)
  expect(await inForce(operator)).toBe('1')
  await backUpCluster(operator, join(directory, 'before'))
  await operator.keys.put('format', '2')
  await backUpCluster(operator, join(directory, 'after'))
  const restoreInto = async (version: number, name: string) => {
    const empty = await NatsServer.start()
    defer(() => empty.cleanUp())
    const connection = await connect(version, empty)
    await restoreCluster(connection, join(directory, name))
    return await inForce(connection)
  }
  expect(await restoreInto(1, 'before')).toBe('1')
  expect(await restoreInto(2, 'before')).toBe('1')
  expect(await restoreInto(2, 'after')).toBe('2')
  await expect(restoreInto(1, 'after')).rejects.toMatchObject({
    code: 'setup_failed',
    message: expect.stringContaining('format 2'),
  })
})
