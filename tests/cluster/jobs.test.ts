import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sendSignal } from '../send-signal.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let three: ServerProcess
let key: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 3 })
  ;[one, two, three] = cluster.hosts as [ServerProcess, ServerProcess, ServerProcess]
  key = one.key
})

afterAll(() => cluster?.cleanUp())

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

/** Each task waits for a file, so that the test decides when it ends. */
const WAITS = `
import os, time
while not os.path.exists('/root/go'): time.sleep(0.02)
(item, os.environ['DORMOUSE_TASK_ATTEMPT'])`

const create = (host: ServerProcess, json: object): Promise<Json> => host.ok('/v1/jobs', { json, key })
const tasksOf = async (host: ServerProcess, id: string, query = ''): Promise<Json[]> =>
  (await host.ok(`/v1/jobs/${id}/tasks?limit=500${query}`, { key })).items
const eventsOf = async (host: ServerProcess, id: string): Promise<Json[]> => {
  const response = await host.fetch(`/v1/jobs/${id}/events`, { key, signal: AbortSignal.timeout(120_000) })
  return (await response.text()).split('\n').flatMap((line) => (line === '' ? [] : JSON.parse(line)))
}
const untilRunning = (host: ServerProcess, id: string, count: number) =>
  expect
    .poll(async () => (await tasksOf(host, id, '&state=running')).length, { timeout: 60_000, interval: 100 })
    .toBe(count)
/** Where the running tasks of a job are: indexes by the address of a host. Waits until their sandboxes run. */
async function placesOf(host: ServerProcess, id: string): Promise<Map<string, number[]>> {
  const places = new Map<string, number[]>()
  for (const { index, sandboxId } of await tasksOf(host, id, '&state=running')) {
    let url: string | null = null
    const ask = async () => {
      const answer = await host.fetch(`/v1/sandboxes/${sandboxId}`, { key })
      url = answer.headers.get('dormouse-host') ?? host.url
      return ((await answer.json()) as Json).state
    }
    await expect.poll(ask, { timeout: 30_000 }).toBe('running')
    places.set(String(url), [...(places.get(String(url)) ?? []), index])
  }
  return places
}
/** Lets tasks end, through any host. A sandbox that is being made has no files yet. */
async function release(host: ServerProcess, id: string): Promise<void> {
  const isReleased = async () => {
    const running = await tasksOf(host, id, '&state=running')
    for (const { sandboxId } of running)
      await host
        .call(`/v1/sandboxes/${sandboxId}/files?path=/root/go`, { method: 'PUT', body: 'go', key })
        .catch(() => undefined)
    return (await host.ok(`/v1/jobs/${id}`, { key })).state
  }
  await expect.poll(isReleased, { timeout: 90_000, interval: 200 }).toBe('finished')
}

describe('a job of a cluster', () => {
  it('runs its tasks on all hosts, and any host shows their ends in the same order', async () => {
    for (const host of cluster.hosts)
      await expect.poll(async () => (await host.call('/v1/nodes', { key })).body.items?.length).toBe(3)
    const job = await create(one, { code: WAITS, inputs: [0, 1, 2, 3, 4, 5], concurrency: 6 })
    await untilRunning(two, job.id, 6)
    const places = await placesOf(two, job.id)
    expect([...places.keys()].sort()).toEqual([one.url, two.url, three.url].sort())
    const followed = Promise.all([one, two, three].map((host) => eventsOf(host, job.id)))
    await release(three, job.id)
    const [first, ...others] = await followed
    expect(first?.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6, 7])
    for (const other of others) expect(other).toEqual(first)
    for (const host of [one, two, three]) {
      const { items } = await host.ok('/v1/jobs', { key })
      expect(items.map(({ id }: Json) => id)).toEqual([job.id])
      const results = await tasksOf(host, job.id, '&results=true')
      expect(results.map(({ result }) => result.text)).toEqual([0, 1, 2, 3, 4, 5].map((n) => `(${n}, '1')`))
    }
    await two.ok(`/v1/jobs/${job.id}`, { method: 'DELETE', key })
    for (const host of [one, three])
      await expect.poll(async () => (await host.call(`/v1/jobs/${job.id}`, { key })).status).toBe(404)
  })

  it('is made once for an idempotency key that two hosts get at once, and cancelled from any host', async () => {
    const json = { code: WAITS, inputs: [1, 2, 3], concurrency: 2, idempotencyKey: 'the-same' }
    const ask = async (host: ServerProcess) => {
      const answer = await host.call('/v1/jobs', { json, key })
      return answer.status === 409 ? undefined : answer.body.id
    }
    const made = await Promise.all([one, two, three, one, two].map(ask))
    const ids = new Set(made.filter((id) => id !== undefined))
    expect(ids.size).toBe(1)
    const [id] = ids
    await untilRunning(one, id, 2)
    await three.ok(`/v1/jobs/${id}/cancel`, { json: {}, key })
    const events = await eventsOf(two, id)
    expect(events.at(-1).job).toMatchObject({ state: 'cancelled', tasks: { cancelled: 3 } })
    await expect.poll(async () => (await one.ok('/v1/sandboxes', { key })).items).toEqual([])
  })

  it('has large inputs and results, which NATS takes in pieces', async () => {
    const inputs = ['a', 'é', '\u{1f42d}', 'd'].map((letter) =>
      letter.repeat(250_000 / Buffer.byteLength(letter)),
    )
    const job = await create(two, { code: 'print(item); item', inputs })
    const events = await eventsOf(three, job.id)
    expect(events.at(-1).job).toMatchObject({ state: 'finished', tasks: { succeeded: 4 } })
    const results = await tasksOf(one, job.id, '&results=true')
    expect(results.map(({ result }) => [...result.stdout].slice(0, 2).join(''))).toEqual([
      ...['aa', 'éé', '\u{1f42d}\u{1f42d}', 'dd'],
    ])
    for (const { result } of results) expect(result.stdout).not.toContain('\ufffd')
  })
})

describe('a lost host', () => {
  it('leaves its tasks and its jobs to the others; each result is recorded once', async () => {
    const job = await create(one, { code: WAITS, inputs: [0, 1, 2, 3, 4, 5], concurrency: 6 })
    await untilRunning(two, job.id, 6)
    const lost = (await placesOf(two, job.id)).get(one.url) ?? []
    expect(lost.length).toBeGreaterThan(0)
    await one.kill()
    const isTaken = async () => {
      const tasks = await tasksOf(two, job.id)
      return lost.every((index) => tasks[index].attempts === 2 && tasks[index].state === 'running')
    }
    await expect.poll(isTaken, { timeout: 15 * LEASE_MS, interval: 300 }).toBe(true)
    await release(three, job.id)
    await one.begin()
    const shown = await Promise.all([one, two, three].map((host) => eventsOf(host, job.id)))
    for (const events of shown) expect(events).toEqual(shown[0])
    const results = await tasksOf(one, job.id, '&results=true')
    expect(results.map(({ result }) => result.text)).toEqual(
      [0, 1, 2, 3, 4, 5].map((n) => `(${n}, '${lost.includes(n) ? 2 : 1}')`),
    )
    // The copies of the lost attempts go, too.
    await expect.poll(async () => (await one.ok('/v1/sandboxes', { key })).items).toEqual([])
  })

  it('that was stopped and continues records nothing for tasks that others have begun again', async () => {
    const job = await create(two, { code: WAITS, inputs: [0, 1, 2], concurrency: 3 })
    await untilRunning(two, job.id, 3)
    const places = await placesOf(two, job.id)
    const lost = places.get(three.url) ?? []
    expect(lost.length).toBeGreaterThan(0)
    sendSignal(three.pid, 'SIGSTOP')
    const isTaken = async () => {
      const tasks = await tasksOf(two, job.id)
      return lost.every((index) => tasks[index].attempts === 2 && tasks[index].state === 'running')
    }
    await expect.poll(isTaken, { timeout: 15 * LEASE_MS, interval: 300 }).toBe(true)
    sendSignal(three.pid, 'SIGCONT')
    await release(two, job.id)
    const attempts = (await tasksOf(two, job.id, '&results=true')).map(({ result }) => result.text)
    expect(attempts).toEqual([0, 1, 2].map((n) => `(${n}, '${lost.includes(n) ? 2 : 1}')`))
    await expect
      .poll(async () => (await three.call(`/v1/jobs/${job.id}`, { key })).body.state, { timeout: 30_000 })
      .toBe('finished')
    expect(await eventsOf(three, job.id)).toEqual(await eventsOf(two, job.id))
  })

  it('that restarts at once continues with its tasks', async () => {
    const job = await create(two, { code: WAITS, inputs: [0, 1, 2], concurrency: 3 })
    await untilRunning(two, job.id, 3)
    await placesOf(two, job.id)
    await two.kill()
    await two.begin()
    await release(two, job.id)
    const results = await tasksOf(one, job.id, '&results=true')
    expect(results.map(({ result }) => result.text)).toEqual([0, 1, 2].map((n) => `(${n}, '1')`))
  })
})
