import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  ChunkCache,
  type ClusterConnection,
  ClusterKey,
  collectDepot,
  connectCluster,
  Depot,
  JetStreamStore,
  type ObjectStore,
} from '@dormouse/cluster'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Dice } from '../fuzz/dice.ts'
import { NatsServer } from './nats-server.ts'

const SEED = Number(process.env['DORMOUSE_SEED'] ?? Date.now() % 1_000_000)
const STEPS = Number(process.env['DORMOUSE_DEPOT_STEPS'] ?? 250)
const PERIOD_MS = 1_000

let nats: NatsServer
let connection: ClusterConnection
let store: ObjectStore
const key = new ClusterKey(randomBytes(32))
const depots: Depot[] = []

beforeAll(async () => {
  nats = await NatsServer.start()
  connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId: 'depot' })
  store = await JetStreamStore.open({ ...connection, replicas: 1 })
})
afterAll(async () => {
  for (const depot of depots) await depot[Symbol.asyncDispose]()
  await connection?.[Symbol.asyncDispose]()
  await nats?.cleanUp()
})

/** The real store, with a clock that the test sets. */
function storeAt(clock: { nowMs: number }): ObjectStore {
  return {
    put: (name, content, options) => store.put(name, content, options),
    find: (name) => store.find(name),
    has: (name) => store.has(name),
    remove: (name) => store.remove(name),
    list: () => store.list(),
    nowMs: async () => clock.nowMs,
  }
}

function openDepot(clock: { nowMs: number }, cache?: ChunkCache): Depot {
  // The depot asks for the time again when a minute has passed.
  const depot = new Depot({ store: storeAt(clock), key, periodMs: PERIOD_MS, cache, clockMs: 0 })
  depots.push(depot)
  return depot
}

const namedBy = (list: unknown) => list as { lists: string[]; chunks: string[] }

/** A snapshot with one part of its own, and parts of `before` and of content that others have too. */
async function* upload(depot: Depot, shared: Buffer, before: string | undefined) {
  const kept = before === undefined ? [] : namedBy(await depot.getList(before)).lists.slice(0, 1)
  yield
  const { chunks } = await depot.storeStream(Readable.from([shared, randomBytes(200)]), { chunkBytes: 200 })
  yield
  const part = (await depot.findRecent('shared')) ?? (await depot.putList('shared', { lists: [], chunks }))
  yield
  const own = await depot.putList(`part-${randomBytes(6).toString('hex')}`, { lists: [], chunks })
  yield undefined
  return await depot.putList(`all-${randomBytes(6).toString('hex')}`, {
    lists: [own, part, ...kept],
    chunks: [],
  })
}

async function requireComplete(depot: Depot, root: string): Promise<void> {
  const { lists, chunks } = namedBy(await depot.getList(root))
  for (const chunk of chunks) await depot.loadChunk(chunk)
  for (const list of lists) await requireComplete(depot, list)
}

describe('the collection of a depot', () => {
  test(`never takes what an entry refers to, in any order of steps (seed ${SEED})`, {
    timeout: 120_000,
  }, async () => {
    const dice = new Dice(SEED)
    const clock = { nowMs: 1_000_000 }
    const hosts = Array.from({ length: 3 }, () => openDepot(clock))
    const entries = new Map<number, string>()
    type Writer = { steps: AsyncGenerator<undefined, string>; before: string | undefined; beganMs: number }
    const running = new Map<number, Writer>()
    const mayAdvance = () =>
      [...running.values()].every(({ beganMs }) => clock.nowMs - beganMs < PERIOD_MS / 2)
    const shared = randomBytes(400)
    let removed = 0
    for (let step = 0; step < STEPS; step += 1) {
      const sandbox = dice.number(4)
      const depot = hosts[dice.number(hosts.length)] as Depot
      const kind = dice.number(20)
      if (kind === 0) {
        // A writer takes less than a period.
        if (running.size === 0) clock.nowMs += dice.number(3 * PERIOD_MS)
      } else if (kind === 1) entries.delete(sandbox)
      else if (kind < 4) {
        const roots = async () => [...entries.values()]
        removed += (await collectDepot(depot, { roots, namedBy })).removed
      } else if (kind === 5) {
        if (mayAdvance()) clock.nowMs += dice.number(PERIOD_MS / 2)
      } else {
        const before = entries.get(sandbox)
        const begin = () => ({ steps: upload(depot, shared, before), before, beganMs: clock.nowMs })
        const writer = running.get(sandbox) ?? begin()
        running.set(sandbox, writer)
        const { done, value } = await writer.steps.next()
        if (done !== true) continue
        running.delete(sandbox)
        // The entry is changed by compare-and-set.
        if (before === writer.before) entries.set(sandbox, value as string)
      }
      if (step % 10 === 0) for (const root of entries.values()) await requireComplete(depot, root)
    }
    for (const root of entries.values()) await requireComplete(hosts[0] as Depot, root)
    clock.nowMs += 5 * PERIOD_MS
    removed += (await collectDepot(hosts[0] as Depot, { roots: async () => entries.values(), namedBy }))
      .removed
    expect(removed).toBeGreaterThan(0)
    for (const root of entries.values()) await requireComplete(hosts[1] as Depot, root)
    await collectDepot(hosts[0] as Depot, { roots: async () => [], namedBy })
    const left: string[] = []
    for await (const { name } of store.list()) left.push(name)
    expect(left).toEqual([])
  })

  test('removes nothing when a list cannot be read', async () => {
    const clock = { nowMs: 5_000_000 }
    const depot = openDepot(clock)
    const { chunks } = await depot.storeStream(Readable.from([randomBytes(100)]))
    const list = await depot.putList('damaged', { lists: [], chunks })
    await store.put(`list-${list}`, randomBytes(200))
    clock.nowMs += 10 * PERIOD_MS
    await expect(collectDepot(depot, { roots: async () => [list], namedBy })).rejects.toThrow()
    await expect(depot.loadChunk(chunks[0] ?? '')).resolves.toBeDefined()
  })
})

test('a cache of chunks keeps the ones used last, within its bound, also after a restart', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-cache-'))
  try {
    const cache = await ChunkCache.open(directory, { maxBytes: 3_000 })
    for (const name of ['a', 'b', 'c']) await cache.add(name, randomBytes(1_000))
    await cache.find('a')
    await cache.add('d', randomBytes(1_000))
    expect((await readdir(directory)).sort()).toEqual(['a', 'c', 'd'])
    const again = await ChunkCache.open(directory, { maxBytes: 2_000 })
    expect(again.bytes).toBe(2_000)
    const depot = openDepot({ nowMs: 9_000_000 }, again)
    const { chunks } = await depot.storeStream(Readable.from([randomBytes(500)]))
    const [name = ''] = chunks
    const content = await depot.loadChunk(name)
    await expect.poll(() => again.find(name)).toBeDefined()
    await store.remove(`chunk-${name}`)
    expect(await depot.loadChunk(name)).toEqual(content)
    // A copy that was damaged is not used: the depot is asked, which has none here.
    await again.remove(name)
    await again.add(name, randomBytes(500))
    await expect(depot.loadChunk(name)).rejects.toMatchObject({ code: 'snapshot_unusable' })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
})
