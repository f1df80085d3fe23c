// Measures services: a request to one that sleeps, against a wake of the same sandbox and against the program awake,
// replicas that follow the load, and rollbacks.
import { setTimeout as sleep } from 'node:timers/promises'
import { ms, report, summarize, table } from './measure.mjs'
import { measureWithWrk } from './ports/wrk.mjs'
import { requirePackages } from './require-packages.mjs'
import { atServer } from './server/at-server.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({ rounds: { type: 'string' } })
requirePackages('wrk')
const TIMES = Number(options.rounds ?? (options.quick ? 5 : 200))
/** A stored wake is long, so fewer of them tell as much. */
const STORED_EVERY = 5
const PAUSE_MS = 500
const SECONDS = options.quick ? 3 : 15
const REPLICAS = 5
const ROLLBACKS = options.quick ? 4 : 40
const start = 'python3 -m http.server $PORT --bind 127.0.0.1'

await atServer(options, async (context) => {
  const { client } = context
  const service = await deploy(client, 'sleeper', { replicas: { max: 1 } })
  const { sandboxId } = service.replicas.items[0]
  const path = '/v1/services/sleeper/http/'
  const result = {
    tiers: await measureTiers(context, { sandboxId, path }),
    scale: await measureScale(context),
    rollbacks: await measureRollbacks(context),
  }
  await report({ name: 'services', options, result, text: describe(result) })
  for (const name of ['sleeper', 'wide', 'rolled']) await client.call('DELETE', `/v1/services/${name}`)
})

async function deploy(client, name, more, version = 1) {
  await client.call('PUT', `/v1/services/${name}`, { port: 3000, template: 'python', start, ...more })
  for (;;) {
    const service = await client.call('GET', `/v1/services/${name}`)
    if (service.version === version) return service
    if (service.versions[0].state === 'failed') throw new Error(service.versions[0].error)
    await sleep(100)
  }
}

/**
 * In turns: awake, frozen, stored; the request of a service, and the wake alone. All but the hot one come after the same
 * pause, because caches are cold then in a service that stayed awake, too.
 */
async function measureTiers({ client, server }, { sandboxId, path }) {
  const samples = {
    hot: [],
    awake: [],
    'frozen, wake alone': [],
    frozen: [],
    'stored, wake alone': [],
    stored: [],
  }
  for (let round = 0; round < TIMES; round++) {
    // Wakes it.
    if (round === 0) await request(server, path)
    await sleep(PAUSE_MS)
    samples.awake.push(await timed(() => request(server, path)))
    samples.hot.push(await timed(() => request(server, path)))
    const tiers = round % STORED_EVERY === 0 ? ['frozen', 'stored'] : ['frozen']
    for (const tier of tiers) {
      await client.call('POST', `/v1/sandboxes/${sandboxId}/standby`, { tier })
      await sleep(PAUSE_MS)
      samples[`${tier}, wake alone`].push(
        await timed(() => client.call('POST', `/v1/sandboxes/${sandboxId}/resume`, {})),
      )
      await client.call('POST', `/v1/sandboxes/${sandboxId}/standby`, { tier })
      await sleep(PAUSE_MS)
      samples[tier].push(await timed(() => request(server, path)))
    }
  }
  return Object.fromEntries(Object.entries(samples).map(([name, list]) => [name, summarize(list)]))
}

async function request(server, path) {
  const response = await fetch(`${server.url}${path}`, { headers: headersOf(server) })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  await response.arrayBuffer()
}

function headersOf({ key }) {
  return { authorization: `Bearer ${key}` }
}

async function timed(work) {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** From a service that sleeps to five replicas, and none of the requests fails. */
async function measureScale({ client, server }) {
  const { replicas } = await deploy(client, 'wide', { replicas: { max: REPLICAS, concurrency: 3 } })
  await client.call('POST', `/v1/sandboxes/${replicas.items[0].sandboxId}/standby`, { tier: 'stored' })
  const began = performance.now()
  let reachedMs
  const watching = (async () => {
    while (reachedMs === undefined && performance.now() - began < SECONDS * 1000) {
      const { replicas: now } = await client.call('GET', '/v1/services/wide')
      if (now.items.filter(({ state }) => state === 'ready').length === REPLICAS)
        reachedMs = performance.now() - began
      await sleep(20)
    }
  })()
  // wrk ends with an error when a request fails.
  const found = await measureWithWrk({
    url: server.url,
    headers: headersOf(server),
    path: '/v1/services/wide/http/',
    connections: 16,
    seconds: SECONDS,
  })
  await watching
  return { ...found, reachedMs }
}

/** Between two versions and back, until a request gets its answer. Every rollback makes a new replica. */
async function measureRollbacks({ client, server }) {
  for (const version of [1, 2]) await deploy(client, 'rolled', { replicas: { max: 1 } }, version)
  const samples = { rollback: [], 'first request after it': [] }
  for (let round = 0; round < ROLLBACKS; round++) {
    await sleep(PAUSE_MS)
    const version = 1 + (round % 2)
    samples.rollback.push(await timed(() => client.call('POST', '/v1/services/rolled/rollback', { version })))
    samples['first request after it'].push(await timed(() => request(server, '/v1/services/rolled/http/')))
  }
  return Object.fromEntries(Object.entries(samples).map(([name, list]) => [name, summarize(list)]))
}

function describe({ tiers, scale, rollbacks }) {
  const titles = { hot: 'awake, right after another request' }
  const rows = Object.entries(tiers).map(([name, { times, p50, p99 }]) => [
    ...[titles[name] ?? name, times],
    ...[ms(p50), ms(p99)],
  ])
  const own = tiers.awake.p50
  const ratio = (tier) => (tiers[tier].p50 / (tiers[`${tier}, wake alone`].p50 + own)).toFixed(2)
  return `${table(['a request to a service that is', 'times', 'p50 ms', 'p99 ms'], rows)}

All but the row right after another request come after the same pause of ${PAUSE_MS} ms. A request takes ${ratio('frozen')} times (frozen) and ${ratio('stored')} times (stored) as long as the wake alone and a request to the awake service together (goal ≤ 1.2).

From one replica that sleeps on disk to ${REPLICAS} that answer, with 16 connections of wrk: ${
    scale.reachedMs === undefined ? 'not reached' : `${Math.round(scale.reachedMs)} ms`
  }; ${Math.round(scale.perSecond)} requests per second, p50 ${ms(scale.p50)} ms, p99 ${ms(scale.p99)} ms, no request failed.

${table(
  ['rollback to a version with no replica', 'times', 'p50 ms', 'p99 ms'],
  Object.entries(rollbacks).map(([name, { times, p50, p99 }]) => [name, times, ms(p50), ms(p99)]),
)}`
}
