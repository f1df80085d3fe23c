import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Dice } from '../fuzz/dice.ts'
import { sendSignal } from '../send-signal.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

/** `DORMOUSE_CLUSTER_SECONDS=3600 DORMOUSE_SEED=7 npx vitest run tests/cluster/model` */
const SECONDS = Number(process.env['DORMOUSE_CLUSTER_SECONDS'] ?? 20)
const SEED = Number(process.env['DORMOUSE_SEED'] ?? Date.now() % 1_000_000)
const SANDBOXES = 3

/** What must be true of a sandbox, whatever happens to its hosts. */
interface Known {
  readonly id: string
  /** The counter at the last sleep that was acknowledged with durability `cluster`. */
  durable: number
}

let cluster: TestCluster
let key: string
beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 3, idleTimeoutMs: 0 })
  key = cluster.hosts[0]?.key ?? ''
})
afterAll(() => cluster?.cleanUp())

type Options = Parameters<ServerProcess['call']>[1]

/** Undefined when the host does not answer, or refuses for now. */
async function ask(host: ServerProcess, path: string, options: Options = {}) {
  const signal = AbortSignal.timeout(20_000)
  const answer = await host.call(path, { key, signal, ...options }).catch(() => undefined)
  return answer !== undefined && answer.status < 300 ? answer.body : undefined
}

async function increment(host: ServerProcess, known: Known): Promise<number | undefined> {
  const answer = await ask(host, `/v1/sandboxes/${known.id}/run`, { json: { code: 'n += 1; print(n)' } })
  if (answer?.exitCode !== 0) return undefined
  const value = Number(answer.stdout)
  expect(value, `seed ${SEED}: ${known.id} was at ${known.durable}`).toBeGreaterThan(known.durable)
  return value
}

async function sleepDurably(host: ServerProcess, known: Known): Promise<void> {
  const value = await increment(host, known)
  const json = { tier: 'stored', durability: 'cluster' }
  const slept = await ask(host, `/v1/sandboxes/${known.id}/standby`, { json })
  // Another host may have continued from an earlier sleep between the two calls, but never from before `durable`.
  if (slept?.replicated !== true || value === undefined) return
  const now = await increment(host, known)
  if (now === value + 1) known.durable = value
}

/** A request that was passed on once is served by the owner only. */
async function requireOneOwner(known: Known): Promise<void> {
  const headers = { 'dormouse-hop': 'the-model' }
  const answers = await Promise.all(
    cluster.hosts.map((host) => ask(host, `/v1/sandboxes/${known.id}`, { headers })),
  )
  expect(answers.filter((answer) => answer !== undefined).length, `seed ${SEED}`).toBeLessThanOrEqual(1)
}

async function disturb(random: Dice): Promise<void> {
  const host = cluster.hosts[random.number(cluster.hosts.length)]
  if (host === undefined) return
  const pauseMs = random.number(2 * LEASE_MS)
  const kind = random.number(4)
  if (kind === 0) {
    await host.kill()
    await sleep(pauseMs)
    await host.begin()
  } else if (kind === 1) {
    sendSignal(host.pid, 'SIGSTOP')
    await sleep(pauseMs)
    sendSignal(host.pid, 'SIGCONT')
  } else if (kind === 2) {
    await cluster.nats.kill()
    await sleep(pauseMs)
    await cluster.nats.begin()
  } else await sleep(pauseMs)
}

test(`no acknowledged state is lost and no sandbox has two owners (seed ${SEED})`, {
  timeout: SECONDS * 1_000 + 240_000,
}, async () => {
  const random = new Dice(SEED)
  const all: Known[] = []
  for (let index = 0; index < SANDBOXES; index += 1) {
    const host = cluster.hosts[index % cluster.hosts.length] as ServerProcess
    await expect.poll(() => ask(host, '/v1/sandboxes')).toBeDefined()
    const { id } = await host.ok('/v1/sandboxes', { json: {}, key })
    await host.run(id, 'n = 0')
    const known = { id, durable: -1 }
    await sleepDurably(host, known)
    expect(known.durable).toBeGreaterThan(0)
    all.push(known)
  }
  const endsAt = Date.now() + SECONDS * 1_000
  const isOver = () => Date.now() > endsAt
  const callers = all.map(async (known, index) => {
    const own = new Dice(SEED + index + 1)
    while (!isOver()) {
      const host = cluster.hosts[own.number(cluster.hosts.length)] as ServerProcess
      if (own.number(5) === 0) await sleepDurably(host, known)
      else await increment(host, known)
      await requireOneOwner(known)
      await sleep(50)
    }
  })
  const disturbing = (async () => {
    while (!isOver()) await disturb(random)
  })()
  await Promise.all([...callers, disturbing])
  for (const known of all) {
    const host = cluster.hosts[0] as ServerProcess
    await expect.poll(() => increment(host, known), { timeout: 60_000, interval: 500 }).toBeDefined()
  }
})
