import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

/** Much more than a wake touches, and than arrives behind it on a busy machine until the test looks. */
const MEMORY_BYTES = 192 * 1024 ** 2
const asleep = { json: { tier: 'stored', durability: 'cluster' } }

let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2, idleTimeoutMs: 0 })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
  while ((await two.call('/v1/sandboxes', { key })).status !== 200) await sleep(100)
})
afterAll(() => cluster?.cleanUp())

const run = async (host: ServerProcess, id: string, code: string) =>
  (await host.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })).stdout as string

/** A sandbox with memory that cannot be compressed, asleep in the depot, and given to the other host. */
async function moveLarge(): Promise<string> {
  const { id } = await one.ok('/v1/sandboxes', { json: {}, key })
  const make = `import os, zlib\nblob = bytearray(os.urandom(${MEMORY_BYTES}))\nn = 1\nprint(zlib.crc32(blob))`
  sums.set(id, await run(one, id, make))
  // The second wake shows what a wake touches.
  await one.ok(`/v1/sandboxes/${id}/standby`, { ...asleep, key })
  await run(one, id, 'n += 1')
  await sleep(500)
  await one.ok(`/v1/sandboxes/${id}/standby`, { ...asleep, key })
  const { items } = await one.ok('/v1/nodes', { key })
  const node = items.find((item: { isSelf: boolean }) => !item.isSelf).id
  await one.ok(`/v1/sandboxes/${id}/move`, { json: { node }, key })
  return id
}
const sums = new Map<string, string>()

/** Bytes of memory files on disk. */
async function arrivedBytes(host: ServerProcess): Promise<number> {
  const snapshots = join(host.factory.stateDir, 'snapshots')
  let bytes = 0
  for (const name of (await readdir(snapshots)).filter((entry) => entry.startsWith('sn-'))) {
    const memory = join(snapshots, name, 'memory')
    for (const file of await readdir(memory).catch(() => [])) {
      const found = await stat(join(memory, file)).catch(() => undefined)
      // A file of the template is linked. Others have a link of the snapshot and one of its burrow.
      if (found !== undefined && found.nlink <= 2) bytes += found.blocks * 512
    }
  }
  return bytes
}

test('a sandbox answers and is written to before all of its memory has arrived', {
  timeout: 90_000,
}, async () => {
  const id = await moveLarge()
  expect(await run(two, id, 'n += 1; blob[5] = 7; print(n)')).toBe('3\n')
  expect(await arrivedBytes(two)).toBeLessThan(MEMORY_BYTES)
  expect(await run(two, id, 'blob[5], zlib.crc32(blob) != 0')).toBeDefined()
  expect(await run(two, id, 'print(blob[5], len(blob))')).toBe(`7 ${MEMORY_BYTES}\n`)
  // A sleep waits for the rest; what follows is complete without the depot.
  await two.ok(`/v1/sandboxes/${id}/standby`, { ...asleep, key })
  expect(await arrivedBytes(two)).toBeGreaterThan(MEMORY_BYTES)
  expect(await run(two, id, 'print(n, blob[5])')).toBe('3 7\n')
  await two.ok(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
})

test('a server that ends while memory arrives leaves a sandbox that the next one completes', {
  timeout: 90_000,
}, async () => {
  const id = await moveLarge()
  const before = await arrivedBytes(two)
  expect(await run(two, id, 'n += 1; print(n)')).toBe('3\n')
  expect((await arrivedBytes(two)) - before).toBeLessThan(MEMORY_BYTES)
  await two.kill()
  await two.begin()
  await expect
    .poll(async () => (await two.call(`/v1/sandboxes/${id}`, { key })).status, { timeout: 10 * LEASE_MS })
    .toBe(200)
  // The same burrow, with what was done before the server ended.
  expect(await run(two, id, 'print(n, zlib.crc32(blob))')).toBe(`3 ${sums.get(id)}`)
  await two.ok(`/v1/sandboxes/${id}/standby`, { ...asleep, key })
  expect(await run(two, id, 'print(zlib.crc32(blob))')).toBe(sums.get(id))
  await two.ok(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
})
