import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, onTestFailed, test } from 'vitest'
import { Dice } from '../fuzz/dice.ts'
import { sendSignal } from '../send-signal.ts'
import { reignsOf } from './world/beats.ts'
import { disturb } from './world/disturb.ts'
import { FaultyCluster, type FaultyHost, LEASE_MS } from './world/faulty-cluster.ts'
import type { Known } from './world/known.ts'
import { Model } from './world/model.ts'
import { describeNats } from './world/nats-streams.ts'
import { play } from './world/operations.ts'
import { requireWhole } from './world/require-whole.ts'

/**
 * `DORMOUSE_CLUSTER_SECONDS=3600 DORMOUSE_SEED=7 npx vitest run tests/cluster/model`; `DORMOUSE_TEST_NATS` names another
 * nats-server, `DORMOUSE_TEST_LOG=warn` shows what the hosts say.
 */
const SECONDS = Number(process.env['DORMOUSE_CLUSTER_SECONDS'] ?? 40)
const SEED = Number(process.env['DORMOUSE_SEED'] ?? Date.now() % 1_000_000)
const SANDBOXES = 3
/** Longer runs also try what the suite leaves out. */
const LONG_SECONDS = 120

let cluster: FaultyCluster
let hosts: [FaultyHost, FaultyHost, FaultyHost]
/** Prints what NATS says when the test has failed. */
const explainFailure = () => onTestFailed(async () => console.log(await describeNats(cluster.nats)))

beforeAll(async () => {
  cluster = await FaultyCluster.start({ s3: SEED % 2 === 1 })
  hosts = cluster.hosts as typeof hosts
})
afterAll(() => cluster?.cleanUp())

async function untilUp(timeout = 60_000): Promise<void> {
  const { key } = cluster
  for (const { server } of cluster.hosts) {
    const status = async () =>
      (await server.call('/v1/sandboxes', { key, signal: AbortSignal.timeout(5_000) }).catch(() => undefined))
        ?.status
    await expect.poll(status, { timeout, interval: 300 }).toBe(200)
  }
}

describe('the fence', () => {
  /** A sandbox that the witness hears from the first host, with a replica. */
  async function begin(model: Model): Promise<Known> {
    onTestFailed(() => {
      const reigns = JSON.stringify(model.all.map(({ id }) => reignsOf(model.beats, id)))
      console.log(
        `seed ${SEED}: ${JSON.stringify(model.counts)}; reigns ${reigns}; last: ${model.lastFailure}`,
      )
    })
    await untilUp()
    const known = await model.create(hosts[0].server)
    if (known === undefined) throw new Error('there is no sandbox')
    await model.increment(hosts[0].server, known)
    await cluster.beats()
    await heardFrom(model, known, 'host-0')
    return known
  }

  /** Waits until the witness has heard it a few times from this host. */
  async function heardFrom(model: Model, { id }: Known, from: string): Promise<void> {
    const heard = async () => {
      await model.requireNoOverlap()
      const last = reignsOf(model.beats, id).at(-1)
      return last?.from === from ? last.beats : 0
    }
    await expect.poll(heard, { timeout: 30_000, interval: 200 }).toBeGreaterThan(5)
  }

  /** Another host continues it; the first one is heard before that, and never again. */
  async function requireTakenOver(model: Model, known: Known, undo: () => Promise<void>): Promise<void> {
    const taken = () => model.increment(hosts[1].server, known)
    await expect.poll(taken, { timeout: 15 * LEASE_MS, interval: 300 }).toBeDefined()
    await undo()
    await untilUp()
    await sleep(LEASE_MS / 2)
    await model.requireNoOverlap()
    const reigns = reignsOf(model.beats, known.id)
    expect(reigns.map(({ from }) => from)[0]).toBe('host-0')
    expect(reigns).toHaveLength(2)
    await model.delete(hosts[1].server, known)
  }

  test('holds when a host is stopped for long and continues', async () => {
    const model = new Model(cluster, SEED)
    const known = await begin(model)
    sendSignal(hosts[0].server.pid, 'SIGSTOP')
    await requireTakenOver(model, known, async () => sendSignal(hosts[0].server.pid, 'SIGCONT'))
  })

  test('holds when a host is cut off from NATS, but not from the internet', async () => {
    const model = new Model(cluster, SEED)
    const known = await begin(model)
    for (const { member } of [...cluster.nats, hosts[1], hosts[2]])
      cluster.network.cutOneWay(hosts[0].member, member)
    await requireTakenOver(model, known, async () => cluster.network.heal())
  })

  test('holds when the clock of a host is an hour behind, and it is cut off', async () => {
    const model = new Model(cluster, SEED)
    const known = await begin(model)
    await hosts[0].clock.set(-3_600)
    for (const { member } of [...cluster.nats, hosts[1], hosts[2]])
      cluster.network.cutOneWay(hosts[0].member, member)
    await requireTakenOver(model, known, async () => {
      cluster.network.heal()
      await hosts[0].clock.set(0)
    })
  })

  test('does not end the lease of a host because a clock was set forward', async () => {
    const model = new Model(cluster, SEED)
    const known = await begin(model)
    const before = await model.increment(hosts[0].server, known)
    // The other hosts may take nothing over by a clock that jumps.
    for (const { clock } of [hosts[1], hosts[2]]) await clock.set(3_600)
    await sleep(LEASE_MS)
    expect(await model.increment(hosts[0].server, known)).toBe((before ?? 0) + 1)
    // The host itself only pauses.
    await hosts[0].clock.set(3_600)
    await untilUp()
    const value = () => model.increment(hosts[0].server, known)
    await expect.poll(value, { timeout: 60_000, interval: 300 }).toBeGreaterThan((before ?? 0) + 1)
    await model.requireNoOverlap()
    expect(new Set(reignsOf(model.beats, known.id).map(({ from }) => from))).toEqual(new Set(['host-0']))
    for (const { clock } of hosts) await clock.set(0)
    await untilUp()
    await model.delete(hosts[0].server, known)
  })
})

test(`no acknowledged state is lost and no sandbox runs twice (seed ${SEED})`, {
  timeout: SECONDS * 1_000 + 600_000,
}, async () => {
  explainFailure()
  await untilUp()
  const model = new Model(cluster, SEED)
  for (let index = 0; index < SANDBOXES; index += 1)
    await expect.poll(() => model.create(cluster.hosts[index % 3]?.server as never)).toBeDefined()
  const endsAt = Date.now() + SECONDS * 1_000
  const isOver = () => Date.now() > endsAt
  const callers = Array.from({ length: SANDBOXES }, async (_, index) => {
    const dice = new Dice(SEED + index + 1)
    let known = model.all[index] as Known
    while (!isOver()) {
      await play(model, dice, known)
      if (known.isDeleted) known = (await model.create(dice.one(hosts).server)) ?? known
    }
  })
  const done: string[] = []
  const disturbing = (async () => {
    const dice = new Dice(SEED)
    while (!isOver()) {
      done.push(await disturb(cluster, dice, { isLong: SECONDS > LONG_SECONDS }))
      await model.requireNoOverlap()
    }
  })()
  try {
    await Promise.all([...callers, disturbing])
    // After full disks of NATS servers, a stream may be without a leader for minutes.
    await untilUp(SECONDS > LONG_SECONDS ? 240_000 : 60_000)
    await requireWhole(model)
  } finally {
    console.log(
      `seed ${SEED}: ${JSON.stringify(model.counts)}, ${model.beats.length} beats; ${done.join(', ')}; last: ${model.lastFailure}`,
    )
  }
  expect(model.counts.increments).toBeGreaterThan(SANDBOXES)
})
