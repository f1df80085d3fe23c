import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ServiceServer } from '../services/service-server.ts'
import { ServerProcess } from './server-process.ts'

const EVERY_SECOND = '* * * * * *'
const NEW_YEAR = '0 0 1 1 *'
const DAY_MS = 86_400_000

let server: ServerProcess
let services: ServiceServer
/** The replica of the service that schedules call. */
let replica: string
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 60_000 })
  services = new ServiceServer(server)
  const { replicas } = await services.deploy('counter')
  replica = replicas.items[0].sandboxId
  await server.ok('/v1/sandboxes', { json: { name: 'box' } })
  await server.run('box', 'ticks = []')
}, 120_000)
afterAll(() => server?.cleanUp())

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const RUN = { type: 'run', sandbox: 'box', code: 'ticks.append(1)' }
const create = (name: string, action: object, more: object = {}) =>
  server.ok('/v1/schedules', { json: { name, cron: EVERY_SECOND, action, ...more } })
const firings = async (name: string): Promise<Json[]> =>
  (await server.ok(`/v1/schedules/${name}/firings`)).items
const done = async (name: string) => (await firings(name)).filter(({ state }) => state === 'done')
const turnOff = (name: string) =>
  server.ok(`/v1/schedules/${name}`, { method: 'PATCH', json: { enabled: false } })

async function untilDone(name: string, count: number): Promise<void> {
  for (const deadline = Date.now() + 60_000; (await done(name)).length < count; await sleep(50))
    if (Date.now() > deadline) throw new Error(JSON.stringify(await firings(name)))
}

/** The firings of a schedule that is off, when all have come to their end. */
async function settled(name: string): Promise<Json[]> {
  for (;;) {
    const all = await firings(name)
    if (!all.some(({ state }) => state === 'pending')) return all
    await sleep(50)
  }
}

/** A firing is done when its run is accepted, which may be before the code has run. */
async function untilRan(all: Json[]): Promise<void> {
  for (const { runId } of all)
    await expect
      .poll(async () => (await server.ok(`/v1/sandboxes/box/runs/${runId}`)).state, { timeout: 30_000 })
      .toBe('finished')
}

/** Requests for a path that the program of the service has seen. */
async function requestsFor(path: string): Promise<number> {
  const lines = await services.logs('counter', `?search=${path}`)
  return lines.filter(({ text }) => text.endsWith(` for ${path}`)).length
}

test('each second runs code in a sandbox, starts a job, calls a service and a port, each once', async () => {
  await create('run', RUN)
  await create('job', { type: 'job', job: { code: 'item + 1', inputs: [41], name: 'scheduled' } })
  await create('service', { type: 'service', service: 'counter', method: 'GET', path: '/by-name' })
  const port = { sandbox: replica, port: 3000, method: 'GET', path: '/by-port' }
  await create('port', { type: 'request', ...port })
  const names = ['run', 'job', 'service', 'port']
  for (const name of names) await untilDone(name, 2)
  for (const name of names) await turnOff(name)
  const [runs, jobs, ofService, ofPort] = (await Promise.all(names.map(settled))) as [
    Json[],
    Json[],
    Json[],
    Json[],
  ]
  for (const all of [runs, jobs, ofService, ofPort]) {
    for (const { state, at } of all) expect([state, Date.parse(at) % 1000]).toEqual(['done', 0])
    expect(new Set(all.map(({ at }) => at)).size).toBe(all.length)
  }
  await untilRan(runs)
  expect(await server.run('box', 'print(len(ticks))')).toBe(`${runs.length}\n`)
  const { id: box } = await server.ok('/v1/sandboxes/box')
  for (const { sandboxId } of runs) expect(sandboxId).toBe(box)
  const { items } = await server.ok('/v1/jobs')
  expect(items.map(({ id }: Json) => id).sort()).toEqual(jobs.map(({ jobId }) => jobId).sort())
  for (const { jobId } of jobs)
    await expect
      .poll(async () => server.ok(`/v1/jobs/${jobId}/tasks/0`), { timeout: 30_000 })
      .toMatchObject({ state: 'succeeded', result: { text: '42' } })
  expect(ofService[0]).toMatchObject({ status: 200, sandboxId: replica })
  // The log of the service comes a moment later.
  await expect.poll(() => requestsFor('/by-name')).toBe(ofService.length)
  await expect.poll(() => requestsFor('/by-port')).toBe(ofPort.length)
}, 120_000)

test('over kill -9 each time fires once, and its code runs once', async () => {
  await server.run('box', 'ticks.clear()')
  await create('kept', RUN)
  for (const wanted of [2, 4]) {
    await untilDone('kept', wanted)
    await server.kill()
    await server.begin()
  }
  await untilDone('kept', 6)
  await turnOff('kept')
  const all = await settled('kept')
  expect(new Set(all.map(({ at }) => at)).size).toBe(all.length)
  expect(new Set(all.map(({ runId }) => runId)).size).toBe(all.length)
  expect(all.map(({ state }) => state)).toEqual(all.map(() => 'done'))
  await untilRan(all)
  expect(await server.run('box', 'print(len(ticks))')).toBe(`${all.length}\n`)
}, 120_000)

test('of times that passed while no server ran, none fires with missed `skip`, and with `once` the latest', async () => {
  await server.run('box', 'ticks.clear()')
  for (const missed of ['skip', 'once']) await create(missed, RUN, { cron: NEW_YEAR, missed })
  await server.kill()
  // As if no server had run since the year before.
  const thisYear = Date.UTC(new Date().getUTCFullYear(), 0, 1)
  const db = new DatabaseSync(join(server.factory.stateDir, 'jobs.db'))
  const lastYear = Date.UTC(new Date().getUTCFullYear() - 1, 0, 1)
  db.prepare('UPDATE schedules SET next_at = ?, settled_at = ? WHERE cron = ?').run(
    lastYear,
    lastYear - DAY_MS,
    NEW_YEAR,
  )
  db.close()
  await server.begin()
  await untilDone('once', 1)
  // A second start finds nothing left to do.
  await server.kill()
  await server.begin()
  for (const name of ['skip', 'once'])
    await expect
      .poll(async () => Date.parse((await server.ok(`/v1/schedules/${name}`)).nextAt), { timeout: 10_000 })
      .toBeGreaterThan(Date.now())
  const [fired, ...others] = await firings('once')
  expect(fired).toMatchObject({ at: new Date(thisYear).toISOString(), state: 'done' })
  expect([...others, ...(await firings('skip'))]).toEqual([])
  await untilRan([fired])
  expect(await server.run('box', 'print(len(ticks))')).toBe('1\n')
}, 60_000)
