import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'
import { launcherWithFeature, OwnMemory } from './world/own-cpu.ts'

/** A feature that no real CPU has. */
const FEATURE = 'dormouse_test'

let directory: string
let cluster: TestCluster
let older: ServerProcess
let newer: ServerProcess
let other: ServerProcess
let key: string
/** What the newer host sees as free. */
let memory: OwnMemory

/** Two hosts see a CPU with one feature more: what they save, the older host cannot restore. */
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-cpu-'))
  const launcher = await launcherWithFeature(directory, FEATURE)
  cluster = await TestCluster.start({ hosts: 1, logLevel: 'fatal' })
  memory = await OwnMemory.make(launcher, directory)
  for (const { launcher: own } of [memory, { launcher }]) await cluster.addHost({}, { launcher: own })
  ;[older, newer, other] = cluster.hosts as [ServerProcess, ServerProcess, ServerProcess]
  key = older.key
})

afterAll(async () => {
  await cluster?.cleanUp()
  await rm(directory, { recursive: true, force: true })
})

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const SLOW = { timeout: 15 * LEASE_MS, interval: 300 }
const LACKS = expect.stringContaining(`this CPU lacks ${FEATURE}`)

const run = (host: ServerProcess, id: string, code: string): Promise<Json> =>
  host.call(`/v1/sandboxes/${id}/run`, { json: { code }, key })
const placeOf = async (host: ServerProcess, id: string) =>
  (await host.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host') ?? host.url
const nodeOf = async (host: ServerProcess): Promise<string> =>
  (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id
const cordon = async (host: ServerProcess, cordoned: boolean) =>
  host.ok(`/v1/nodes/${await nodeOf(host)}/cordon`, { json: { cordoned }, key })

/** On the newer host, asleep in the depot with a snapshot that needs the feature. */
async function make(): Promise<string> {
  let id = ''
  // On a busy machine another host may be the better place.
  const isHere = async () => {
    if (id !== '') await newer.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
    id = (await newer.ok('/v1/sandboxes', { json: {}, key })).id
    return (await placeOf(newer, id)) === newer.url
  }
  await expect.poll(isHere, SLOW).toBe(true)
  await run(newer, id, 'value = "of a newer CPU"')
  const json = { tier: 'stored', durability: 'cluster' }
  expect(await newer.ok(`/v1/sandboxes/${id}/standby`, { json, key })).toMatchObject({ replicated: true })
  return id
}

it('a move to a host that cannot restore the sandbox is refused, with the hosts that can', async () => {
  await expect.poll(async () => (await newer.call('/v1/nodes', { key })).body.items?.length).toBe(3)
  const id = await make()
  const to = (node: string) => newer.call(`/v1/sandboxes/${id}/move`, { json: { node }, key })
  expect(await to(await nodeOf(older))).toMatchObject({
    status: 409,
    body: { error: { code: 'conflict', message: LACKS, details: { nodes: [await nodeOf(other)] } } },
  })
  expect((await to(await nodeOf(other))).status).toBe(200)
  expect((await run(older, id, 'print(value)')).body).toMatchObject({ stdout: 'of a newer CPU\n' })
  expect(await placeOf(older, id)).toBe(other.url)
  await older.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
})

it('a sandbox from a kept snapshot, children of a fork and a drain go to hosts that can restore them', async () => {
  const id = await make()
  const { id: snapshot } = await newer.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'kept' }, key })
  await expect
    .poll(async () => (await older.call(`/v1/snapshots/${snapshot}`, { key })).status, SLOW)
    .toBe(200)
  const made = await older.fetch('/v1/sandboxes', { json: { snapshot }, key })
  expect(made.status).toBe(201)
  expect([newer.url, other.url]).toContain(made.headers.get('dormouse-host'))
  await older.call(`/v1/sandboxes/${((await made.json()) as Json).id}`, { method: 'DELETE', key })
  await cordon(newer, true)
  const { children } = await newer.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 2 }, key })
  for (const child of children) expect(await placeOf(older, child.id)).toBe(other.url)
  // Without a host that can, nothing moves, and the reasons say what each lacks.
  await cordon(other, true)
  const stuck = await newer.ok(`/v1/nodes/${await nodeOf(newer)}/drain`, { json: {}, key })
  expect(stuck).toMatchObject({ moved: [], left: [{ sandboxId: id, reason: LACKS }] })
  expect(stuck.left[0].reason).toContain(`${await nodeOf(other)}: it is cordoned`)
  const refused = await older.call('/v1/sandboxes', { json: { snapshot }, key })
  expect(refused).toMatchObject({
    status: 503,
    body: { error: { code: 'host_unavailable', message: LACKS } },
  })
  await cordon(other, false)
  const drained = await newer.ok(`/v1/nodes/${await nodeOf(newer)}/drain`, { json: {}, key })
  expect(drained).toMatchObject({ moved: [{ sandboxId: id, node: await nodeOf(other) }], left: [] })
  await cordon(newer, false)
  for (const gone of [id, ...children.map((child: Json) => child.id)])
    await older.call(`/v1/sandboxes/${gone}`, { method: 'DELETE', key })
})

it('children of a fork go to another host that can restore them when that of their parent is full', async () => {
  const id = await make()
  const roomOf = async () => {
    const { items } = await older.ok('/v1/nodes', { key })
    const { memory: room } = items.find(({ address }: Json) => address === newer.url)
    return room.freeBytes / room.totalBytes
  }
  await memory.show(0)
  await expect.poll(roomOf, SLOW).toBeLessThan(0.05)
  const { children } = await newer.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 2 }, key })
  for (const child of children) {
    expect(await placeOf(older, child.id)).toBe(other.url)
    expect((await run(older, child.id, 'print(value)')).body.stdout).toBe('of a newer CPU\n')
  }
  await memory.show()
  await expect.poll(roomOf, SLOW).toBeGreaterThan(0.05)
  for (const gone of [id, ...children.map((child: Json) => child.id)])
    await older.call(`/v1/sandboxes/${gone}`, { method: 'DELETE', key })
})

it('a sandbox of a lost host wakes on a host that can restore it, or says which hosts could', async () => {
  const id = await make()
  const lost = await nodeOf(newer)
  await newer.kill()
  const value = async () => (await run(older, id, 'print(value)')).body.stdout
  await expect.poll(value, SLOW).toBe('of a newer CPU\n')
  expect(await placeOf(older, id)).toBe(other.url)
  const json = { tier: 'stored', durability: 'cluster' }
  await other.ok(`/v1/sandboxes/${id}/standby`, { json, key })
  await other.kill()
  const error = async () => (await older.call(`/v1/sandboxes/${id}`, { key })).body.error
  await expect.poll(error, SLOW).toMatchObject({
    ...{ code: 'host_unavailable', message: LACKS, hint: expect.stringContaining(lost) },
    details: { hosts: [{ id: await nodeOf(older), problem: LACKS }] },
  })
  await newer.begin()
  await expect.poll(value, SLOW).toBe('of a newer CPU\n')
})
