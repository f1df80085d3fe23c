import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { powerCut } from '../server/power-cut.ts'
import { ServerProcess } from '../server/server-process.ts'
import { ServiceServer } from './service-server.ts'

let services: ServiceServer
let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 60_000 })
  services = new ServiceServer(server)
})
afterAll(() => server?.cleanUp())

/** Collects the deploy events of a stream until it is stopped. */
async function follow() {
  const stop = new AbortController()
  const response = await server.fetch('/v1/events', {
    headers: { accept: 'application/x-ndjson' },
    signal: stop.signal,
  })
  const found: { type: string; data: object; seq: number }[] = []
  const lines = createInterface({ input: Readable.fromWeb(response.body as never) })
  lines.on('line', (line) => {
    const event = line === '' ? undefined : JSON.parse(line)
    if (event?.type.startsWith('deploy.')) found.push(event)
  })
  lines.on('error', () => {})
  return { found, stop: () => stop.abort() }
}

test('deployments are events on the stream, and webhooks can have them', async () => {
  const { found, stop } = await follow()
  const { id } = await services.deploy('counter')
  await services.deploy('counter', { env: { VERSION: 'two' } })
  await services.deploy('counter', { start: 'exit 3', ready: { port: 3000, timeoutMs: 2_000 } })
  await server.ok('/v1/services/counter/rollback', { json: {} })
  while (found.length < 7) await sleep(20)
  stop()
  const of = (type: string, version: number) => ({
    type,
    data: { service: 'counter', serviceId: id, version },
  })
  expect(found).toMatchObject([
    of('deploy.started', 1),
    of('deploy.ready', 1),
    of('deploy.started', 2),
    of('deploy.ready', 2),
    of('deploy.started', 3),
    of('deploy.failed', 3),
    of('deploy.rolled_back', 1),
  ])
  expect(found[5]?.data).toHaveProperty('error')
  const hook = { name: 'd', url: 'https://example.com/hook', events: ['deploy.ready'] }
  expect((await server.call('/v1/webhooks', { json: hook })).status).toBe(201)
}, 120_000)

test('a schedule calls a service by its name, and wakes it', async () => {
  const { replicas } = await services.deploy('timed')
  const { sandboxId } = replicas.items[0]
  const { count } = await services.ask('timed')
  await server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
  const action = { type: 'service', service: 'timed', method: 'GET', path: '/tick' }
  await server.ok('/v1/schedules', { json: { name: 'tick', cron: '0 0 1 1 *', action } })
  expect(await server.ok('/v1/schedules/tick/fire', { json: {} })).toMatchObject({
    state: 'done',
    status: 200,
    sandboxId,
  })
  expect((await services.ask('timed')).count).toBe(count + 2)
  await server.ok('/v1/schedules/tick', {
    method: 'PATCH',
    json: { action: { ...action, service: 'nothing' } },
  })
  expect(await server.ok('/v1/schedules/tick/fire', { json: {} })).toMatchObject({ state: 'failed' })
}, 60_000)

test('a replica with checkpoints has its memory after a power cut, and its program still serves', async () => {
  const { replicas } = await services.deploy('kept', { checkpointEveryMs: 1000 })
  const { sandboxId } = replicas.items[0]
  const taken = async () =>
    (await server.ok(`/v1/sandboxes/${sandboxId}/ledger?limit=1000`)).items.filter(
      ({ cause }: { cause: string }) => cause === 'checkpoint',
    ).length
  // Checkpoints do not wait for a pause between requests for ever, and no request fails.
  for (const end = (await taken()) + 2; (await taken()) < end; )
    await Promise.all([services.ask('kept', '/slow'), services.ask('kept')])
  const { count } = await services.ask('kept')
  const before = await taken()
  while ((await taken()) < before + 2) await sleep(50)
  await server.kill()
  await powerCut(server.factory)
  await server.begin()
  expect((await services.ask('kept')).count).toBe(count + 1)
  await server.ok('/v1/services/kept', { method: 'PATCH', json: { checkpointEveryMs: 0 } })
  while ((await server.ok(`/v1/sandboxes/${sandboxId}`)).checkpointEveryMs !== 0) await sleep(50)
}, 60_000)
