import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sendSignal } from '../send-signal.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2, idleTimeoutMs: 60_000, logLevel: 'fatal' })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
})

afterAll(() => cluster?.cleanUp())

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const program = readFileSync(new URL('../services/counter.py', import.meta.url), 'utf8')
const START = 'exec python3 -c "$PROGRAM"'
const SLOW = { timeout: 15 * LEASE_MS, interval: 300 }
const asleep = { json: { tier: 'stored', durability: 'cluster' } }

const get = (host: ServerProcess, name: string): Promise<Json> => host.ok(`/v1/services/${name}`, { key })
const ask = async (host: ServerProcess, name: string): Promise<Json> => {
  const signal = AbortSignal.timeout(10_000)
  const answer = await host.call(`/v1/services/${name}/http/`, { key, signal }).catch(() => undefined)
  return answer?.status === 200 ? answer.body : answer?.body?.error
}
const hostOf = async (host: ServerProcess, name: string) =>
  (await host.fetch(`/v1/services/${name}`, { key })).headers.get('dormouse-host') ?? host.url

async function deploy(host: ServerProcess, name: string, { env, ...request }: Json = {}): Promise<Json> {
  const json = { port: 3000, start: START, env: { PROGRAM: program, ...env }, ...request }
  const { versions } = await host.ok(`/v1/services/${name}`, { method: 'PUT', json, key })
  const wanted = versions[0].version
  const state = async () =>
    (await get(host, name)).versions.find(({ version }: Json) => version === wanted).state
  await expect.poll(state, { timeout: 90_000, interval: 100 }).toBe('ready')
  return get(host, name)
}

/** The snapshots of versions that another host can fetch. */
async function untilUploaded(host: ServerProcess, count: number): Promise<void> {
  const uploaded = async () =>
    (await host.ok('/v1/snapshots', { key })).items.filter(({ name }: Json) => name === 'ready').length
  await expect.poll(uploaded, { timeout: 60_000, interval: 200 }).toBe(count)
}

it('of a lost host continue on another one, with their versions, and the host finds out what it no longer owns', async () => {
  await expect.poll(async () => (await two.call('/v1/nodes', { key })).body.items?.length).toBe(2)
  await deploy(one, 'counter', { env: { VERSION: 'first' } })
  const { id, replicas } = await deploy(one, 'counter', { env: { VERSION: 'second' } })
  await deploy(one, 'awake', { replicas: { min: 1, max: 1 } })
  await one.ok('/v1/volumes', { json: { name: 'data' }, key })
  await deploy(one, 'bound', { volumes: [{ volume: 'data', path: '/data' }] })
  expect(await ask(two, 'counter')).toMatchObject({ count: 1, version: 'second' })
  expect(await hostOf(two, 'counter')).toBe(one.url)
  await untilUploaded(two, 3)
  // A replica that slept is in the depot with its memory.
  const { sandboxId } = replicas.items.find(({ version }: Json) => version === 2)
  expect(await one.ok(`/v1/sandboxes/${sandboxId}/standby`, { ...asleep, key })).toMatchObject({
    replicated: true,
  })
  await one.kill()
  expect(await ask(two, 'counter')).toMatchObject({ code: 'host_unavailable' })
  await expect.poll(() => ask(two, id), SLOW).toMatchObject({ count: 2, version: 'second' })
  expect(await hostOf(two, 'counter')).toBe(two.url)
  const listed = async () => (await two.ok('/v1/services', { key })).items.map(({ name }: Json) => name)
  // No request has asked for it: it has a replica that stays awake.
  await expect.poll(listed, SLOW).toEqual(expect.arrayContaining(['awake', 'counter']))
  await expect
    .poll(async () => (await get(two, 'awake')).replicas.items[0]?.isAwake, { timeout: 60_000 })
    .toBe(true)
  const refused = await ask(two, 'bound')
  expect(refused).toMatchObject({ code: 'host_unavailable', message: expect.stringContaining('volumes') })
  await two.ok('/v1/services/counter/rollback', { json: {}, key })
  expect(await ask(two, 'counter')).toMatchObject({ count: 1, version: 'first' })
  await deploy(two, 'counter', { env: { VERSION: 'third' } })
  await two.call('/v1/services/awake', { method: 'DELETE', key })

  await one.begin()
  expect(await ask(one, 'counter')).toMatchObject({ version: 'third' })
  expect(await hostOf(one, 'counter')).toBe(two.url)
  expect((await get(one, 'counter')).versions.map(({ version }: Json) => version)).toEqual([3, 2, 1])
  expect(await ask(one, 'awake')).toMatchObject({ code: 'not_found' })
  expect(await ask(two, 'bound')).toMatchObject({ version: 'none' })
  expect(await hostOf(two, 'bound')).toBe(one.url)
  const { items } = await one.ok('/v1/services', { key })
  expect(items.map(({ name }: Json) => name).sort()).toEqual(['bound', 'counter'])
  await one.ok('/v1/services/bound', { method: 'DELETE', key }).catch(() => undefined)
})

it('of a host that was stopped and continues are served by one host only', async () => {
  await untilUploaded(one, 3)
  expect(await hostOf(one, 'counter')).toBe(two.url)
  sendSignal(two.pid, 'SIGSTOP')
  await expect.poll(() => ask(one, 'counter'), SLOW).toMatchObject({ version: 'third' })
  sendSignal(two.pid, 'SIGCONT')
  await expect.poll(() => ask(two, 'counter'), SLOW).toMatchObject({ version: 'third' })
  await expect.poll(() => hostOf(two, 'counter'), SLOW).toBe(one.url)
  // A deployment continues the numbers, and a line of the log never has a number that a reader has passed.
  const { versions } = await deploy(two, 'counter', { env: { VERSION: 'fourth' } })
  expect(versions[0].version).toBe(4)
  const lines = (await (await two.fetch('/v1/services/counter/logs', { key })).text()).trim().split('\n')
  expect(JSON.parse(lines.at(-1) ?? '{}').seq).toBeGreaterThan(1e9)
})

it('go with their replicas to another host when theirs is drained', async () => {
  await untilUploaded(two, 4)
  const { count } = await ask(one, 'counter')
  const { items } = await one.ok('/v1/nodes', { key })
  const node = items.find(({ isSelf }: Json) => isSelf).id
  expect(await hostOf(two, 'counter')).toBe(one.url)
  await one.ok(`/v1/nodes/${node}/drain`, { json: {}, key })
  await expect.poll(() => ask(one, 'counter'), SLOW).toMatchObject({ version: 'fourth', count: count + 1 })
  expect(await hostOf(one, 'counter')).toBe(two.url)
  expect((await get(one, 'counter')).replicas.items).toHaveLength(1)
  await one.ok(`/v1/nodes/${node}/cordon`, { json: { cordoned: false }, key })
})

it('of one name are made once when two hosts are asked at the same moment', async () => {
  const json = { port: 3000, start: START, env: { PROGRAM: program } }
  const put = async (host: ServerProcess) =>
    (await host.call('/v1/services/same', { method: 'PUT', json, key })).status
  const statuses = await Promise.all([put(one), put(two)])
  expect(statuses.toSorted()[0]).toBe(202)
  const ids = async () =>
    (await one.ok('/v1/services', { key })).items.flatMap(({ id, name }: Json) => (name === 'same' ? id : []))
  await expect.poll(async () => (await ids()).length).toBe(1)
  await expect.poll(() => ask(one, 'same'), SLOW).toMatchObject({ version: 'none' })
  expect((await get(one, 'same')).id).toBe((await get(two, 'same')).id)
})
