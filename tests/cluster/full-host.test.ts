import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'
import { shareTemplate } from '../snapshot/small-disk.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'
import { OwnDisk } from './world/own-disk.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const MIB = 1024 ** 2
const MIN_FREE_BYTES = 1024 * MIB
const SLOW = { timeout: 15 * LEASE_MS, interval: 200 }
const FULL = 'it has too little free disk'

let directory: string
let cluster: TestCluster
let key: string
const hosts: { server: ServerProcess; disk: OwnDisk; node: string }[] = []

/** Three hosts with disks of their own. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-full-hosts-'))
  const toolsDir = join(directory, 'tools')
  await shareTemplate(toolsDir)
  cluster = await TestCluster.start({ hosts: 0, minFreeDiskBytes: MIN_FREE_BYTES, logLevel: 'fatal' })
  for (let index = 0; index < 3; index += 1) {
    let disk: OwnDisk | undefined
    const prepare = async (directory: string) => {
      disk = await OwnDisk.mountAt(directory)
    }
    const server = await cluster.addHost({}, { toolsDir, prepare })
    const { items } = await server.ok('/v1/nodes')
    hosts.push({
      server,
      disk: disk as unknown as OwnDisk,
      node: items.find(({ isSelf }: Json) => isSelf).id,
    })
  }
  key = one().server.key
}, 180_000)

afterAll(async () => {
  for (const server of cluster?.hosts ?? []) {
    await server.kill()
    await server.factory.dispose()
  }
  for (const { disk } of hosts) await disk.remove()
  await cluster?.cleanUp()
  await rm(directory, { recursive: true, force: true })
})

type Host = (typeof hosts)[number]
const one = () => hosts[0] as Host
const two = () => hosts[1] as Host
const three = () => hosts[2] as Host

/** The free disk of a host, as another one knows it. */
async function freeAt({ server }: Host, node: string): Promise<number> {
  const { items } = await server.ok('/v1/nodes', { key })
  return items.find(({ id }: Json) => id === node).disk.freeBytes
}
/** Resolves when the others know it. */
async function leave({ disk, node }: Host, bytes: number, others: readonly Host[]): Promise<void> {
  await disk.makeRoom()
  await disk.fill({ leavesBytes: bytes })
  for (const other of others) await expect.poll(() => freeAt(other, node), SLOW).toBeLessThan(bytes + MIB)
}
const fill = (host: Host, others: readonly Host[]) => leave(host, MIN_FREE_BYTES / 2, others)
async function makeRoom({ disk, node }: Host, others: readonly Host[]): Promise<void> {
  await disk.makeRoom()
  for (const other of others)
    await expect.poll(() => freeAt(other, node), SLOW).toBeGreaterThan(2 * MIN_FREE_BYTES)
}
const create = ({ server }: Host, json: object = {}) => server.fetch('/v1/sandboxes', { json, key })
const run = async ({ server }: Host, id: string, code: string): Promise<Json> =>
  (await server.call(`/v1/sandboxes/${id}/run`, { json: { code }, key })).body
const placeOf = async ({ server }: Host, id: string) =>
  (await server.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host')
const move = ({ server }: Host, id: string, { node }: Host) =>
  server.call(`/v1/sandboxes/${id}/move`, { json: { node }, key })
const remove = ({ server }: Host, id: string) => server.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
async function makeReplicated(host: Host, code: string): Promise<string> {
  const { id } = await host.server.ok('/v1/sandboxes', { json: {}, key })
  expect(await run(host, id, code)).toMatchObject({ exitCode: 0 })
  const json = { tier: 'stored', durability: 'cluster' }
  expect(await host.server.ok(`/v1/sandboxes/${id}/standby`, { json, key })).toMatchObject({
    replicated: true,
  })
  return id
}

it('a new sandbox goes past hosts whose disk is nearly full, and when all are, the error names each', async () => {
  await expect.poll(async () => (await two().server.call('/v1/nodes', { key })).status).toBe(200)
  await fill(one(), [one(), two()])
  const made = await create(one(), { name: 'there' })
  expect(made.status).toBe(201)
  expect([two().server.url, three().server.url]).toContain(made.headers.get('dormouse-host'))
  const { id } = (await made.json()) as Json
  await fill(two(), [one()])
  await fill(three(), [one()])
  const refused = await create(one())
  expect(refused.status).toBe(503)
  const { error } = (await refused.json()) as Json
  expect(error).toMatchObject({ code: 'host_unavailable', hint: expect.stringContaining('more room') })
  for (const { node } of hosts) expect(error.message).toContain(`${node}: ${FULL}`)
  const found = await create(one(), { name: 'there', getOrCreate: true })
  expect([found.status, ((await found.json()) as Json).id]).toEqual([200, id])
  for (const host of hosts) await makeRoom(host, hosts)
  await remove(one(), id)
})

it('children of a fork go to a host with room when the disk of their parent is nearly full', async () => {
  const id = await makeReplicated(one(), 'value = "inherited"')
  await fill(one(), [one()])
  await fill(two(), [one()])
  const { children } = await one().server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 }, key })
  expect(await placeOf(one(), children[0].id)).toBe(three().server.url)
  expect(await run(one(), children[0].id, 'print(value)')).toMatchObject({ stdout: 'inherited\n' })
  for (const host of hosts) await makeRoom(host, hosts)
  for (const gone of [id, children[0].id]) await remove(one(), gone)
})

it('a sandbox does not move to a disk that its snapshot does not fit on', async () => {
  const small = await makeReplicated(one(), 'value = "small"')
  const large = await makeReplicated(
    one(),
    'import os; open("/root/data", "wb").write(os.urandom(300 * 2 ** 20))',
  )
  await leave(two(), MIN_FREE_BYTES + 256 * MIB, [one(), three()])
  expect(await move(one(), large, two())).toMatchObject({
    status: 409,
    body: { error: { code: 'conflict', message: expect.stringContaining(`${FULL} for the snapshot`) } },
  })
  expect(await move(one(), small, two())).toMatchObject({ status: 200 })
  // A host may fill up after it was given a sandbox. Then it gives it to one with room.
  await fill(two(), hosts)
  await expect.poll(async () => (await run(one(), small, 'print(value)')).stdout, SLOW).toBe('small\n')
  expect(await placeOf(two(), small)).not.toBe(two().server.url)
  await makeRoom(two(), hosts)
  for (const id of [small, large]) await remove(one(), id)
})

it('a sandbox of a lost host wakes on one with room, and when there is none, the error names each', async () => {
  const first = await makeReplicated(one(), 'value = "first"')
  const second = await makeReplicated(one(), 'value = "second"')
  await fill(two(), hosts)
  await one().server.kill()
  const value = async (id: string) => (await run(two(), id, 'print(value)')).stdout
  await expect.poll(() => value(first), SLOW).toBe('first\n')
  expect(await placeOf(two(), first)).toBe(three().server.url)
  await fill(three(), [two(), three()])
  const { error } = await run(two(), second, 'print(value)')
  expect(error).toMatchObject({ code: 'host_unavailable', hint: expect.stringContaining('Make room') })
  for (const { node } of [two(), three()]) expect(error.message).toContain(`${node}: ${FULL}`)
  await makeRoom(three(), [two(), three()])
  await expect.poll(() => value(second), SLOW).toBe('second\n')
  expect(await placeOf(two(), second)).toBe(three().server.url)
})
