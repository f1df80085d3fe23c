import { setTimeout as sleep } from 'node:timers/promises'
import { withTimeout } from '@dormouse/async'
import type { Dice } from '../../fuzz/dice.ts'
import { sendSignal } from '../../send-signal.ts'
import type { ServerProcess } from '../../server/server-process.ts'
import type { NatsServer } from '../nats-server.ts'
import { type FaultyCluster, LEASE_MS } from './faulty-cluster.ts'
import { isWhole } from './nats-streams.ts'

const HOUR_S = 3_600
const START_TRIES = 20
const START_TIMEOUT_MS = 150_000
const FETCH_TIMEOUT_MS = 60_000
/** A host joins and recovers its sandboxes within this time, if nothing disturbs it. */
const START_MS = 3_000

type Disturbance = (cluster: FaultyCluster, dice: Dice, pause: () => Promise<void>) => Promise<void>

/** Each does something to the cluster, waits, and takes it back. */
const DISTURBANCES: Readonly<Record<string, Disturbance>> = {
  'kill a host': async ({ hosts }, dice, pause) => {
    const { server } = dice.one(hosts)
    await server.kill()
    await pause()
    await beginUntilUp(server)
  },
  'stop a host': async ({ hosts }, dice, pause) => {
    const { pid } = dice.one(hosts).server
    sendSignal(pid, 'SIGSTOP')
    await pause()
    sendSignal(pid, 'SIGCONT')
  },
  'kill a NATS server': async ({ nats }, dice, pause) => {
    const { server } = dice.one(nats)
    await server.kill()
    await pause()
    await server.begin()
  },
  'stop a NATS server': async ({ nats }, dice, pause) => {
    const { pid } = dice.one(nats).server
    sendSignal(pid, 'SIGSTOP')
    await pause()
    sendSignal(pid, 'SIGCONT')
  },
  'kill all NATS servers': async ({ nats }, _, pause) => {
    await Promise.all(nats.map(({ server }) => server.kill()))
    await pause()
    await Promise.all(nats.map(({ server }) => server.begin()))
  },
  'cut the link of a host': async ({ network, hosts }, dice, pause) => {
    network.cut(dice.one(hosts).member)
    await pause()
    network.heal()
  },
  'cut a host from NATS only': async ({ network, hosts, nats }, dice, pause) => {
    const { member } = dice.one(hosts)
    for (const { member: server } of nats) network.cutOneWay(member, server)
    await pause()
    network.heal()
  },
  'cut NATS servers from each other, one way': async ({ network, nats }, dice, pause) => {
    const { member } = dice.one(nats)
    for (const { member: other } of nats) if (other !== member) network.cutOneWay(other, member)
    await pause()
    network.heal()
  },
  'cut hosts from each other': async ({ network, hosts }, dice, pause) => {
    const { member } = dice.one(hosts)
    for (const { member: other } of hosts) if (other !== member) network.cutOneWay(member, other)
    await pause()
    network.heal()
  },
  'slow down the link of a host': async ({ network, hosts }, dice, pause) => {
    network.slow(dice.one(hosts).member)
    await pause()
    network.heal()
  },
  'slow down the link of a NATS server': async ({ network, nats }, dice, pause) => {
    network.slow(dice.one(nats).member)
    await pause()
    network.heal()
  },
  'fill the disk of a host': async ({ hosts }, dice, pause) => {
    const { disk } = dice.one(hosts)
    await disk.fill()
    await pause()
    await disk.makeRoom()
  },
  'set the clock of a host': async ({ hosts }, dice, pause) => {
    const { clock } = dice.one(hosts)
    await clock.set(dice.one([-HOUR_S, -3, 3, HOUR_S]))
    await pause()
    await clock.set(0)
  },
  'let the depot fail': async (cluster, dice, pause) => {
    await cluster.setStoreFault(dice.one(['error', 'cut']))
    await pause()
    await cluster.setStoreFault('none')
  },
  'do nothing': (_cluster, _dice, pause) => pause(),
}

/** They take long, or come after the others because a seed chooses by place. */
const ONLY_IN_LONG_RUNS: typeof DISTURBANCES = {
  'fill the disk of a NATS server': async ({ nats }, dice, pause) => {
    const { disk, server } = dice.one(nats)
    await disk.fill()
    await pause()
    // As the guide says: what is on a disk that was full may differ from what the other servers have (decision 263).
    await server.kill()
    await disk.makeRoom()
    await beginEmpty(server, nats)
  },
  'replace a NATS server by an empty one': async ({ nats }, dice, pause) => {
    const { server } = dice.one(nats)
    await server.kill()
    await pause()
    await beginEmpty(server, nats)
  },
  'stop all NATS servers': async ({ nats }, _, pause) => {
    for (const { server } of nats) sendSignal(server.pid, 'SIGSTOP')
    await pause()
    for (const { server } of nats) sendSignal(server.pid, 'SIGCONT')
  },
  'start a host while no NATS server runs': async ({ hosts, nats }, dice, pause) => {
    const { server } = dice.one(hosts)
    await Promise.all([server, ...nats.map((one) => one.server)].map((one) => one.kill()))
    const started = beginInBackground(server)
    await pause()
    await Promise.all(nats.map((one) => one.server.begin()))
    await started()
  },
  'kill all NATS servers while a host starts': async ({ hosts, nats }, dice, pause) => {
    const { server } = dice.one(hosts)
    await server.kill()
    const started = beginInBackground(server)
    await sleep(dice.number(START_MS))
    await Promise.all(nats.map((one) => one.server.kill()))
    await pause()
    await Promise.all(nats.map((one) => one.server.begin()))
    await started()
  },
  'stop a host while it starts': async ({ hosts }, dice, pause) => {
    const { server } = dice.one(hosts)
    await server.kill()
    const started = beginInBackground(server)
    await sleep(dice.number(START_MS))
    await stopFor(server.pid, pause)
    await started()
  },
  'kill a host while it starts': async ({ hosts }, dice, pause) => {
    const { server } = dice.one(hosts)
    await server.kill()
    const ended = server.begin().catch(() => {})
    await sleep(dice.number(START_MS))
    await server.kill()
    await ended
    await pause()
    await beginUntilUp(server)
  },
  'start a host with a full disk': async ({ hosts }, dice, pause) => {
    const { server, disk } = dice.one(hosts)
    await server.kill()
    await disk.fill()
    const started = beginInBackground(server)
    await pause()
    await disk.makeRoom()
    await started()
  },
  'set the clock of a host while it starts': async ({ hosts }, dice, pause) => {
    const { server, clock } = dice.one(hosts)
    await server.kill()
    const started = beginInBackground(server)
    await sleep(dice.number(START_MS))
    await clock.set(dice.one([-HOUR_S, -3, 3, HOUR_S]))
    await pause()
    await clock.set(0)
    await started()
  },
  'kill all hosts': async ({ hosts }, _, pause) => {
    await Promise.all(hosts.map(({ server }) => server.kill()))
    await pause()
    await Promise.all(hosts.map(({ server }) => beginUntilUp(server)))
  },
}

/** The process may have given up. */
async function stopFor(pid: number, pause: () => Promise<void>): Promise<void> {
  try {
    sendSignal(pid, 'SIGSTOP')
    await pause()
    sendSignal(pid, 'SIGCONT')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The server fetches all streams from the others. */
async function beginEmpty(server: NatsServer, nats: FaultyCluster['nats']): Promise<void> {
  await server.empty()
  await server.begin()
  const endsAt = performance.now() + FETCH_TIMEOUT_MS
  while (!(await isWhole(nats)) && performance.now() < endsAt) await sleep(500)
}

/** Returns what waits until the host runs. */
function beginInBackground(server: ServerProcess): () => Promise<void> {
  const starting = beginUntilUp(server)
  // Awaited later; until then a rejection is not unhandled.
  starting.catch(() => {})
  return () => starting
}

class StuckStart extends Error {
  override message = 'a host neither starts nor gives up'
}

/** A host does not start while NATS has no leader, and says so in time. Systemd would start it again, too. */
async function beginUntilUp(server: ServerProcess): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await withTimeout(server.begin(), START_TIMEOUT_MS, () => new StuckStart())
      return
    } catch (error) {
      if (error instanceof StuckStart || tries >= START_TRIES) throw error
      await sleep(1_000)
    }
  }
}

/** Disturbs the cluster once; returns how. */
export async function disturb(
  cluster: FaultyCluster,
  dice: Dice,
  { isLong }: { isLong: boolean },
): Promise<string> {
  const choice = isLong ? { ...DISTURBANCES, ...ONLY_IN_LONG_RUNS } : DISTURBANCES
  const name = dice.one(Object.keys(choice))
  const pauseMs = dice.number(2 * LEASE_MS)
  await choice[name]?.(cluster, dice, () => sleep(pauseMs))
  return `${name} (${pauseMs} ms)`
}
