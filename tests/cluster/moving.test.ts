import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2 })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
})

afterAll(() => cluster?.cleanUp())

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const asleep = { json: { tier: 'stored', durability: 'cluster' } }
const CERTIFICATE = '/usr/local/share/ca-certificates/dormouse.crt'
const run = async (host: ServerProcess, id: string, code: string): Promise<string> => {
  const { stdout, stderr } = await host.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })
  return `${stdout}${stderr}`.trim()
}
const nodeOf = async (host: ServerProcess): Promise<string> =>
  (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id
const move = async (from: ServerProcess, id: string, to: ServerProcess) =>
  await from.ok(`/v1/sandboxes/${id}/move`, { json: { node: await nodeOf(to) }, key })
const keep = (host: ServerProcess, id: string, name: string): Promise<Json> =>
  host.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name }, key })
const namesOf = async (host: ServerProcess, id: string): Promise<string[]> => {
  const { items } = await host.ok(`/v1/snapshots?sandboxId=${id}`, { key })
  return items.flatMap(({ name }: Json) => name ?? []).sort()
}
const rollback = (host: ServerProcess, id: string, snapshotId: string) =>
  host.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId }, key })

describe('a sandbox with secrets and kept snapshots', () => {
  it('moves with them, and rolls back on its new host', async () => {
    await expect.poll(async () => (await two.call('/v1/nodes', { key })).body.items?.length).toBe(2)
    const secret = await one.ok('/v1/secrets', {
      json: { name: 'TOKEN', value: 'its-value', domains: ['a.example'] },
      key,
    })
    const { id } = await one.ok('/v1/sandboxes', { json: { secrets: ['TOKEN'] }, key })
    await run(one, id, 'value = "kept"')
    await keep(one, id, 'before')
    await run(one, id, 'value = "later"')
    const read = `print(open("${CERTIFICATE}").read())`
    const trusted = await run(one, id, read)
    await move(one, id, two)
    expect(await run(two, id, 'import os; print(value, os.environ["TOKEN"])')).toBe(
      `later ${secret.placeholder}`,
    )
    expect((await one.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host')).toBe(two.url)
    // Programs that run trust the edge of the new host without reading certificates again.
    expect(await run(two, id, read)).toBe(trusted)
    await expect.poll(() => namesOf(two, id), { timeout: 30_000 }).toEqual(['before'])
    expect((await two.call(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'before' }, key })).status).toBe(
      409,
    )
    await rollback(two, id, 'before')
    expect(await run(two, id, 'print(value)')).toBe('kept')
    await two.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  })

  it('continues on another host when its own is lost, and its kept snapshots are still there', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: { secrets: ['TOKEN'] }, key })
    await run(one, id, 'value = "kept"')
    const { id: snapshotId } = await keep(one, id, 'good')
    await run(one, id, 'value = "later"')
    await one.ok(`/v1/sandboxes/${id}/standby`, { ...asleep, key })
    await expect.poll(() => namesOf(two, id), { timeout: 30_000 }).toContain('good')
    await one.kill()
    const value = async () =>
      (await two.call(`/v1/sandboxes/${id}/run`, { json: { code: 'print(value)' }, key })).body.stdout
    await expect.poll(value, { timeout: 10 * LEASE_MS, interval: 300 }).toBe('later\n')
    await rollback(two, id, 'good')
    expect(await run(two, id, 'print(value)')).toBe('kept')
    const made = await two.ok('/v1/sandboxes', { json: { snapshot: snapshotId }, key })
    expect(await run(two, made.id, 'print(value)')).toBe('kept')
    await two.call(`/v1/sandboxes/${made.id}`, { method: 'DELETE', key })
    await one.begin()
    await two.ok(`/v1/sandboxes/${id}`, { method: 'DELETE', key }).catch(() => undefined)
    // Any host deletes it for all.
    await two.call(`/v1/snapshots/${snapshotId}`, { method: 'DELETE', key })
    for (const host of [one, two])
      await expect
        .poll(async () => (await host.call(`/v1/snapshots/${snapshotId}`, { key })).status)
        .toBe(404)
  })

  it('that was forked rolls back to a snapshot of its parent, wherever both are', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: {}, key })
    await run(one, id, 'value = "of the parent"')
    const { id: snapshotId } = await keep(one, id, 'origin')
    await run(one, id, 'value = "at the fork"')
    const { children } = await one.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 }, key })
    const child = children[0].id
    await run(one, child, 'value = "of the child"')
    await move(one, child, two)
    expect(await run(two, child, 'print(value)')).toBe('of the child')
    await expect
      .poll(async () => (await two.call(`/v1/snapshots/${snapshotId}`, { key })).status, { timeout: 30_000 })
      .toBe(200)
    await rollback(two, child, snapshotId)
    expect(await run(two, child, 'print(value)')).toBe('of the parent')
    for (const gone of [child, id]) await one.call(`/v1/sandboxes/${gone}`, { method: 'DELETE', key })
    await one.call(`/v1/snapshots/${snapshotId}`, { method: 'DELETE', key })
  })
})

describe('an ephemeral sandbox', () => {
  it('moves, and its new host deletes it after the same time without use', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: { ephemeral: true }, key })
    await run(one, id, 'value = "moved"')
    const path = `/v1/sandboxes/${id}`
    expect(await one.ok(`${path}/standby`, { ...asleep, key })).toMatchObject({ replicated: true })
    const { lastActiveAt } = await one.ok(path, { key })
    await move(one, id, two)
    expect(await two.ok(path, { key })).toMatchObject({ state: 'standby', ephemeral: true, lastActiveAt })
    const hourMs = Date.parse((await two.ok(`${path}/why`, { key })).expiresAt) - Date.parse(lastActiveAt)
    expect(Math.abs(hourMs - 3_600_000)).toBeLessThan(1_000)
    expect(await run(two, id, 'print(value)')).toBe('moved')
    await two.ok(path, { method: 'PATCH', json: { expires: { idleMs: 1, action: 'delete' } }, key })
    await expect.poll(async () => (await one.call(path, { key })).status).toBe(404)
  })
})

describe('a job that starts from a sandbox', () => {
  it('has its state on every host', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: {}, key })
    await run(one, id, 'base = 100')
    const wait = 'import os, time\nwhile not os.path.exists("/root/go"): time.sleep(0.02)\nbase + item'
    const inputs = [0, 1, 2, 3, 4, 5]
    const job = await two.ok('/v1/jobs', { json: { code: wait, sandbox: id, inputs, concurrency: 2 }, key })
    const hosts = new Set<string>()
    // One task after the other makes room for the next one.
    const releaseOne = async () => {
      const { items } = await one.ok(`/v1/jobs/${job.id}/tasks?state=running`, { key })
      for (const { sandboxId } of items) {
        const answer = await one.fetch(`/v1/sandboxes/${sandboxId}`, { key })
        if (answer.status === 200) hosts.add(answer.headers.get('dormouse-host') ?? one.url)
      }
      const path = `/v1/sandboxes/${items[0]?.sandboxId}/files?path=/root/go`
      const isShared = (await two.call(`/v1/snapshots/${job.origin.snapshotId}`, { key })).status === 200
      if (isShared) await one.call(path, { method: 'PUT', body: 'go', key }).catch(() => undefined)
      return (await one.ok(`/v1/jobs/${job.id}`, { key })).state
    }
    await expect.poll(releaseOne, { timeout: 60_000, interval: 200 }).toBe('finished')
    expect(hosts.size).toBe(2)
    const { items } = await two.ok(`/v1/jobs/${job.id}/tasks?results=true`, { key })
    expect(items.map(({ result }: Json) => result.text)).toEqual(inputs.map((n) => String(100 + n)))
    await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  })
})

describe('a host that takes no more sandboxes', () => {
  it('has new ones, and children of forks, made on another host', async () => {
    const node = await nodeOf(one)
    const parent = await one.ok('/v1/sandboxes', { json: {}, key })
    await run(one, parent.id, 'value = "inherited"')
    await one.ok(`/v1/nodes/${node}/cordon`, { json: {}, key })
    const made = await one.fetch('/v1/sandboxes', { json: { name: 'placed' }, key })
    expect([made.status, made.headers.get('dormouse-host')]).toEqual([201, two.url])
    const refused = await one.call('/v1/sandboxes', { json: { name: 'placed' }, key })
    expect(refused).toMatchObject({ status: 409, body: { error: { code: 'name_taken' } } })
    const { children } = await one.ok(`/v1/sandboxes/${parent.id}/fork`, { json: { count: 2 }, key })
    for (const { id } of children) {
      expect((await one.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host')).toBe(two.url)
      expect(await run(one, id, 'print(value)')).toBe('inherited')
    }
    expect(await run(one, parent.id, 'print(value)')).toBe('inherited')
    await one.ok(`/v1/nodes/${node}/cordon`, { json: { cordoned: false }, key })
    for (const id of ['placed', parent.id, ...children.map(({ id: child }: Json) => child)])
      await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  })
})

describe('a drain', () => {
  it('moves everything that can move, and any host shows how far it is', async () => {
    const ids: string[] = []
    for (let count = 0; count < 3; count += 1) {
      const { id } = await one.ok('/v1/sandboxes', { json: { ephemeral: count === 0 }, key })
      await run(one, id, `value = ${count}`)
      ids.push(id)
    }
    await one.ok('/v1/volumes', { json: { name: 'data' }, key })
    const volumes = [{ volume: 'data', path: '/data' }]
    const ephemeral = await one.ok('/v1/sandboxes', { json: { ephemeral: true, idleTimeoutMs: 0 }, key })
    const mounted = await one.ok('/v1/sandboxes', { json: { volumes }, key })
    const stays = [
      { sandboxId: ephemeral.id, reason: expect.stringContaining('ephemeral') },
      { sandboxId: mounted.id, reason: expect.stringContaining('mounts volumes') },
    ]
    const node = await nodeOf(one)
    const to = { json: { node: await nodeOf(two) }, key }
    expect(await one.call(`/v1/sandboxes/${mounted.id}/move`, to)).toMatchObject({
      status: 409,
      body: {
        error: { code: 'conflict', message: stays[1]?.reason, hint: expect.stringContaining('volumes') },
      },
    })
    const seen: Json[] = []
    const drained = two.ok(`/v1/nodes/${node}/drain`, { json: {}, key })
    const shown = async () => {
      const { items } = await two.ok('/v1/nodes', { key })
      const { drain } = items.find(({ id }: Json) => id === node)
      if (drain !== undefined) seen.push(drain)
      return drain
    }
    await expect
      .poll(shown, { timeout: 60_000, interval: 50 })
      .toEqual({ total: 5, moved: 3, left: 2, stays: expect.arrayContaining(stays) })
    const { moved, left } = await drained
    expect(moved.map(({ sandboxId }: Json) => sandboxId).sort()).toEqual([...ids].sort())
    expect(left).toEqual(expect.arrayContaining(stays))
    expect(seen.map((drain) => drain.moved)).toEqual(seen.map((drain) => drain.moved).sort())
    for (const [index, id] of ids.entries()) {
      expect(await run(two, id, 'print(value)')).toBe(String(index))
      await two.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
    }
    const { drain } = await two.ok(`/v1/nodes/${node}/cordon`, { json: { cordoned: false }, key })
    expect(drain).toBeUndefined()
    // When the host is lost, the error says why no other host continues what stayed.
    await one.kill()
    const error = async () => (await two.call(`/v1/sandboxes/${mounted.id}`, { key })).body.error
    await expect
      .poll(error, { timeout: 10 * LEASE_MS, interval: 300 })
      .toMatchObject({ code: 'host_unavailable', message: stays[1]?.reason, hint: expect.any(String) })
    await one.begin()
    for (const { id } of [ephemeral, mounted])
      await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  })
})
