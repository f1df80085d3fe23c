// A day of traffic on a fleet that does not fit on this machine. Hosts are modelled. Placement, the directory and the
// collection are the real code of packages/cluster; NATS is a map in memory. Then a real nats-server shows how many
// operations of that kind it holds. A million sandboxes need `node --max-old-space-size=8000`.

import { measureCollection } from './fleet/collection.mjs'
import { Fleet, HOST_MEMORY, SANDBOX_MEMORY } from './fleet/fleet.mjs'
import { measureNats } from './fleet/measure-nats.mjs'
import { randomOf, sessionsOf } from './fleet/traffic.mjs'
import { report, table } from './measure.mjs'
import { requirePackages } from './require-packages.mjs'
import { readOptions } from './workbench.mjs'

const options = readOptions({
  hosts: { type: 'string' },
  sandboxes: { type: 'string' },
  seed: { type: 'string', default: '1' },
  sessions: { type: 'string', default: '0.7' },
  creates: { type: 'string', default: '0.05' },
  lost: { type: 'string', default: '3' },
})
requirePackages('nats-server')
const HOSTS = Number(options.hosts ?? (options.quick ? 20 : 1_000))
const SANDBOXES = Number(options.sandboxes ?? (options.quick ? 2_000 : 1_000_000))
const CREATES = Number(options.creates)
const LEASE_MS = 10_000
/** A host renews its lease six times in that time. */
const RENEWALS_PER_LEASE = 6
const COLLECTED_SNAPSHOTS = Math.min(SANDBOXES, 5_000)
const DAY_S = 86_400
/** Of the memory of a host, what an operator would plan for sandboxes. */
const USABLE = 0.8
const random = randomOf(Number(options.seed))

const fleet = new Fleet({ hosts: HOSTS, sandboxes: SANDBOXES, random })
await fleet.fill()
console.error(`… ${SANDBOXES} sandboxes on ${HOSTS} hosts are in the directory`)
const result = { ...(await playDay()), ...(await measureParts()) }
await report({ name: 'fleet', options, result, text: describe(result), page: 'scale.md' })

async function playDay() {
  const depotBefore = fleet.depot.read()
  const perDay = Number(options.sessions)
  const sessions = sessionsOf({ random, sandboxes: SANDBOXES, perDay, awakeS: 120, changedBytes: 12e6 })
  const losses = Array.from({ length: Number(options.lost) }, () => ({
    host: Math.floor(random() * HOSTS),
    atS: random() * DAY_S,
  }))
  const createPart = CREATES / perDay
  for (const session of sessions) {
    for (const { host, atS } of losses) if (atS <= session.startS) fleet.loseHost(host)
    await fleet.fallAsleep(session.startS)
    if (random() < createPart) await fleet.create(Math.floor(random() * SANDBOXES), session)
    else await fleet.wake(session.sandbox, session)
  }
  await fleet.fallAsleep(Number.POSITIVE_INFINITY)
  const { placements, lostSessions, peakAwakeBytes, writesAt } = fleet
  return {
    ...{ hosts: HOSTS, sandboxes: SANDBOXES, lostHosts: losses.length, wakes: fleet.latencies.length },
    ...{ wakeMs: quantiles(fleet.latencies), placements, lostSessions, peakAwakeBytes },
    writesPerS: {
      mean: writesAt.reduce((sum, count) => sum + count, 0) / DAY_S,
      // Sessions that end after midnight are all in the last minute.
      busiest: Math.max(...writesAt.slice(0, -1)) / 60,
    },
    leasesPerS: (HOSTS * RENEWALS_PER_LEASE * 1000) / LEASE_MS,
    ...{ depotBefore, depot: fleet.depot.read() },
  }
}

async function measureParts() {
  const collection = await measureCollection({ key: fleet.key, snapshots: COLLECTED_SNAPSHOTS })
  return { collection, nats: await measureNats(fleet.key) }
}

function quantiles(samples) {
  const sorted = Float64Array.from(samples).sort()
  const at = (part) => sorted[Math.floor(part * (sorted.length - 1))]
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999) }
}

function describe(found) {
  const { wakeMs, placements, depot, depotBefore, writesPerS, leasesPerS, nats, collection } = found
  const count = (value) => Math.round(value).toLocaleString('en')
  const terabytes = (bytes) => `${(bytes / 1e12).toPrecision(2)} TB`
  const alwaysOn = (SANDBOXES * SANDBOX_MEMORY) / HOST_MEMORY
  const needed = found.peakAwakeBytes / (HOST_MEMORY * USABLE)
  const placed = placements.wakes + placements.creates + placements.refused
  const rows = [
    ['wakes', `${count(found.wakes)}, of which ${count(placements.wakes)} on another host`],
    [
      'creates',
      `${count(placements.creates)}, of which ${count(placements.createsElsewhere)} on another host than the one asked`,
    ],
    [
      'a placement',
      `${(placements.tookMs / placed).toFixed(2)} ms; ${count(placements.refused)} found no host`,
    ],
    ['sessions cut off with their host', `${count(found.lostSessions)} with ${found.lostHosts} hosts`],
    [
      'writes to the directory',
      `${count(writesPerS.mean)} per second, ${count(writesPerS.busiest)} in the busiest minute`,
    ],
    ['renewals of leases', `${count(leasesPerS)} per second`],
    [
      'what JetStream must hold',
      `${count(writesPerS.busiest + leasesPerS)} operations per second; one nats-server with one client held ${count(nats.perSecond)} here`,
    ],
    [
      'uploads to the depot',
      `${terabytes(depot.uploadedBytes)}, ${count(depot.uploadedBytes / DAY_S / 1e6)} MB/s at the mean`,
    ],
    [
      'stored in the depot, in use',
      `${terabytes(depotBefore.inUseBytes)} before, ${terabytes(depot.inUseBytes)} after`,
    ],
    ['… out of use since, until the collection', terabytes(depot.unusedBytes)],
    [
      'the collection',
      `${collection.perSnapshotMs.toFixed(2)} ms for each snapshot in use, of ${count(collection.snapshots)}`,
    ],
    [
      'wake, p50 / p90 / p99 / p99.9',
      `${[wakeMs.p50, wakeMs.p90, wakeMs.p99, wakeMs.p999].map(count).join(' / ')} ms`,
    ],
    [
      'hosts for the memory that is awake at once',
      `${needed.toFixed(1)}, where always-on sandboxes would need ${count(alwaysOn)} (${((100 * needed) / alwaysOn).toFixed(2)} %)`,
    ],
  ]
  const title = `A day of ${count(HOSTS)} hosts and ${count(SANDBOXES)} sandboxes, with ${options.sessions} sessions each; ${found.lostHosts} hosts are lost:`
  return `${title}\n\n${table(['', ''], rows)}`
}
