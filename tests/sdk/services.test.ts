import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer({ webhooks: { allowPrivate: true } })
const start = 'echo version $COLOUR; exec python3 -m http.server $PORT'
const deploy = (COLOUR: string, more: object = {}) =>
  server.client.services.deploy('files', { port: 8000, template: 'python', start, env: { COLOUR }, ...more })

test('a service changes, rolls back and is deleted, and its log is searched and followed', async () => {
  const { services } = server.client
  await deploy('green')
  const updated = await services.update('files', {
    replicas: { max: 3, concurrency: 5 },
    health: { path: '/', intervalMs: 60_000 },
  })
  expect(updated).toMatchObject({ version: 1, replicas: { max: 3, concurrency: 5 }, health: { path: '/' } })
  expect(await services.update('files', { health: null })).not.toHaveProperty('health')
  expect(await deploy('blue')).toMatchObject({ version: 2, replicas: { max: 3 } })
  expect(await services.rollback('files')).toMatchObject({ version: 1 })
  expect(await services.rollback('files', { version: 2 })).toMatchObject({ version: 2 })
  await expect(services.rollback('files', { version: 7 })).rejects.toMatchObject({ code: 'not_found' })
  const said: string[] = []
  const stop = new AbortController()
  for await (const line of services.logs('files', {
    search: 'version ',
    follow: true,
    signal: stop.signal,
  })) {
    if (line.stream === 'stdout') said.push(line.text)
    if (said.length === 2) break
  }
  stop.abort()
  expect(said).toEqual(['version green', 'version blue'])
  await services.delete('files')
  expect(await services.list().all()).toEqual([])
}, 120_000)

test('a schedule is created, changed, fired and deleted', async () => {
  const { schedules } = server.client
  const sandbox = await server.create()
  const action = { type: 'run', sandbox: sandbox.id, code: '6 * 7' } as const
  const made = await schedules.create({ name: 'yearly', cron: '0 0 1 1 *', action, missed: 'once' })
  expect(made).toMatchObject({ name: 'yearly', timezone: 'UTC', missed: 'once', enabled: true })
  expect((await schedules.list().all()).map(({ name }) => name)).toEqual(['yearly'])
  const changed = await schedules.update('yearly', { timezone: 'Europe/Berlin', enabled: false })
  expect(changed).toMatchObject({ timezone: 'Europe/Berlin', enabled: false })
  const firing = await schedules.fire('yearly')
  expect(firing).toMatchObject({ state: 'done', sandboxId: sandbox.id })
  const textOf = async (runId = '') => (await sandbox.runs.get(runId)).result?.results[0]?.text
  await expect.poll(() => textOf(firing.runId)).toBe('42')
  expect(await schedules.firings('yearly')).toEqual([firing])
  expect((await schedules.get('yearly')).last).toEqual(firing)
  await schedules.delete('yearly')
  await expect(schedules.get('yearly')).rejects.toMatchObject({ code: 'not_found' })
  await sandbox.delete()
})

describe('webhooks', () => {
  let receiver: Server
  const seen: { headers: IncomingMessage['headers']; body: string }[] = []
  beforeAll(async () => {
    receiver = createServer(async (request, response) => {
      seen.push({ headers: request.headers, body: await text(request) })
      response.writeHead(204).end()
    }).listen(0, '127.0.0.1')
    await once(receiver, 'listening')
  })
  afterAll(() => receiver.close())

  test('are created, tested, changed and deleted; deliveries are signed and listed', async () => {
    const { webhooks, jobs } = server.client
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`
    const { secret } = await webhooks.create({ name: 'ts', url, events: ['job.ended'] })
    expect(await webhooks.test('ts')).toMatchObject({ type: 'test', state: 'delivered', status: 204 })
    const { headers, body } = seen[0] ?? { headers: {}, body: '' }
    const [, sent, signature] = /^t=(\d+),v1=(\w+)$/.exec(String(headers['dormouse-signature'])) ?? []
    expect(createHmac('sha256', secret).update(`${sent}.${body}`).digest('hex')).toBe(signature)
    const { id } = await jobs.create({ code: 'item', inputs: [1] })
    await expect
      .poll(() => webhooks.deliveries('ts'), { timeout: 30_000 })
      .toMatchObject([{ type: 'job.ended', state: 'delivered' }, { type: 'test' }])
    expect(JSON.parse(seen[1]?.body ?? '')).toMatchObject({ type: 'job.ended', data: { id } })
    expect(await webhooks.update('ts', { enabled: false })).toMatchObject({ enabled: false })
    expect((await webhooks.rotate('ts')).secret).not.toBe(secret)
    expect(await webhooks.get('ts')).not.toHaveProperty('secret')
    expect((await webhooks.list().all()).map(({ name }) => name)).toEqual(['ts'])
    await webhooks.delete('ts')
    expect(await webhooks.list().all()).toEqual([])
    await jobs.delete(id)
  }, 60_000)
})

describe('client.events()', () => {
  /** Begins with a gap: what happens afterwards is in the stream. */
  async function follow(options: object = {}) {
    const stop = new AbortController()
    const events = server.client.events({ ...options, signal: stop.signal })
    expect((await events.next()).value).toMatchObject({ type: 'gap' })
    return { events, stop: () => stop.abort() }
  }

  test('has only those of one sandbox if asked', async () => {
    const [one, other] = [await server.create(), await server.create()]
    const { events, stop } = await follow({ sandbox: one.id })
    for (const sandbox of [other, one]) await sandbox.delete()
    for await (const { type, sandboxId } of events) {
      expect(sandboxId).toBe(one.id)
      if (type === 'sandbox.deleted') break
    }
    stop()
  })

  test('has jobs and deployments, and continues after a `seq` over kill -9 of the server', async () => {
    const { jobs, services } = server.client
    const { events, stop } = await follow()
    const { id } = await jobs.create({ code: 'item', inputs: [1], name: 'seen' })
    let seen = 0
    for await (const { type, seq, data } of events) {
      if (type !== 'job.ended') continue
      expect(data).toMatchObject({ id, name: 'seen', state: 'finished', tasks: { succeeded: 1 } })
      seen = seq
      break
    }
    stop()
    await deploy('red')
    await services.delete('files')
    // Events are on disk a tenth of a second later.
    await sleep(300)
    await server.process.kill()
    await server.process.begin()
    const client = server.clientWith({ url: server.process.url })
    const types: string[] = []
    const later = new AbortController()
    for await (const { type, seq } of client.events({ after: seen, signal: later.signal })) {
      expect(seq).toBeGreaterThan(seen)
      types.push(type)
      if (type === 'gap') break
    }
    later.abort()
    expect(types.filter((type) => type.startsWith('deploy.'))).toEqual(['deploy.started', 'deploy.ready'])
  }, 120_000)
})
