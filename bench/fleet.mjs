// node --max-old-space-size=8000 bench/fleet.mjs [--hosts N] [--sandboxes N] [--seed N] [--dry]
//
// A day of traffic on a fleet that does not fit on this machine. Hosts are modelled. Placement, the directory and the
// collection are the real code of packages/cluster; NATS is a map in memory, which counts. Then a real nats-server
// shows how many operations of that kind it holds.
import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { ClusterKey, chooseHost, collectDepot, Depot, Directory } from '@dormouse/cluster'
import { measureNats } from './fleet/measure-nats.mjs'
import { MemoryBucket } from './fleet/memory-bucket.mjs'
import { MemoryStore } from './fleet/memory-store.mjs'
import { lognormal, randomOf, sessionsOf } from './fleet/traffic.mjs'

const { values } = parseArgs({
  options: {
    hosts: { type: 'string', default: '1000' },
    sandboxes: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    sessions: { type: 'string', default: '1.5' },
    lost: { type: 'string', default: '3' },
  },
})
const HOSTS = Number(values.hosts)
const SANDBOXES = Number(values.sandboxes)
const random = randomOf(Number(values.seed))
const LEASE_MS = 10_000
const GB = 1024 ** 3
/** Medians that were measured on one host and in tests/cluster; the spread is assumed. */
const WAKE_MS = { stored: 60, elsewhere: 500 }
const WAKE_CPU_S = 0.05
const CPUS = 32
const HOST_MEMORY = 256 * GB
const SANDBOX_MEMORY = 0.5 * GB
const COMPRESSED = 0.4
const COLLECTED_SANDBOXES = Math.min(SANDBOXES, 5_000)

const key = new ClusterKey(randomBytes(32))
const bucket = new MemoryBucket()
const directory = await Directory.open({ bucket, key })

const hosts = Array.from({ length: HOSTS }, (_, index) => hostRecord(index))
const awake = hosts.map(() => ({ memory: 0, waking: 0, peak: 0 }))

function hostRecord(index) {
  return {
    ...{ id: `host-${index}`, address: `http://host-${index}`, version: '0', startedAt: '', instance: '' },
    ...{
      epoch: 1,
      renewals: 0,
      hasLeft: false,
      isCordoned: false,
      arch: 'x64',
      kernel: '6.12',
      abilities: {},
    },
    room: {
      ...{ memoryTotalBytes: HOST_MEMORY, memoryFreeBytes: HOST_MEMORY, cpus: CPUS },
      ...{ diskTotalBytes: 4096 * GB, diskFreeBytes: 2048 * GB },
    },
    load: { running: 0, sandboxes: 0, cpu: 0 },
  }
}

const entryOf = (host, id) => ({
  ...{
    host: hosts[host].id,
    epoch: 1,
    generation: 0,
    owner: 'key-1',
    state: 'standby',
    createdAt: 1,
    head: `sn-${id}`,
  },
  replica: { snapshotId: `sn-${id}`, list: `all-${id}-1`, createdAt: '2026-01-01T00:00:00.000Z', needs: {} },
  row: { id, template: 'python', metadata: {}, limits: { memoryBytes: SANDBOX_MEMORY } },
})

const began = performance.now()
const located = new Array(SANDBOXES)
const hostOf = new Int32Array(SANDBOXES)
for (let index = 0; index < SANDBOXES; index += 1) {
  hostOf[index] = index % HOSTS
  located[index] = await directory.add(`sb-${index}`, entryOf(hostOf[index], `sb-${index}`))
}
const fillS = (performance.now() - began) / 1000
console.log(`${SANDBOXES} sandboxes on ${HOSTS} hosts are in the directory (${fillS.toFixed(0)} s).`)

const sessions = sessionsOf({
  ...{ random, sandboxes: SANDBOXES, perDay: Number(values.sessions), awakeS: 120, changedBytes: 12e6 },
})
const lostAt = Array.from({ length: Number(values.lost) }, () => ({
  host: Math.floor(random() * HOSTS),
  atS: random() * 86_400,
}))
const lost = new Set()
const writesAt = new Float64Array(24 * 60)
const latencies = []
const totals = {
  uploadedBytes: 0,
  placed: 0,
  lostSessions: 0,
  peakAwakeBytes: 0,
  awakeBytes: 0,
  awakeByteSeconds: 0,
}
const sleeping = []

/** Sandboxes that fall asleep before `untilS`, from a heap by time. */
async function fallAsleep(untilS) {
  while (sleeping.length > 0 && sleeping[0].endS <= untilS) {
    const { sandbox, host, changedBytes, endS } = pop(sleeping)
    awake[host].memory -= SANDBOX_MEMORY
    totals.awakeBytes -= SANDBOX_MEMORY
    hosts[host].room.memoryFreeBytes += SANDBOX_MEMORY
    totals.uploadedBytes += changedBytes * COMPRESSED
    if (lost.has(host)) totals.lostSessions += 1
    // Asleep, then replicated.
    await write(sandbox, endS, { state: 'standby' })
    await write(sandbox, endS, { state: 'standby' })
  }
}

async function write(sandbox, atS, change) {
  const next = await directory.change(located[sandbox], { ...located[sandbox].entry, ...change })
  if (next === undefined) throw new Error('the entry has changed')
  located[sandbox] = next
  writesAt[Math.min(writesAt.length - 1, Math.floor(atS / 60))] += 1
}

function push(heap, item) {
  heap.push(item)
  for (let at = heap.length - 1; at > 0; ) {
    const above = (at - 1) >> 1
    if (heap[above].endS <= heap[at].endS) break
    ;[heap[above], heap[at]] = [heap[at], heap[above]]
    at = above
  }
}

function pop(heap) {
  const first = heap[0]
  const last = heap.pop()
  if (heap.length > 0) heap[0] = last
  for (let at = 0; ; ) {
    let least = at
    for (const below of [2 * at + 1, 2 * at + 2])
      if (below < heap.length && heap[below].endS < heap[least].endS) least = below
    if (least === at) return first
    ;[heap[least], heap[at]] = [heap[at], heap[least]]
    at = least
  }
}

const awakeUntil = new Float64Array(SANDBOXES)
const dayBegan = performance.now()
for (const { startS, sandbox, awakeS, changedBytes } of sessions) {
  for (const { host, atS } of lostAt) if (atS <= startS) lost.add(host)
  await fallAsleep(startS)
  if (awakeUntil[sandbox] > startS) continue
  let kind = 'stored'
  const own = hosts[hostOf[sandbox]]
  if (lost.has(hostOf[sandbox]) || own.room.memoryFreeBytes < HOST_MEMORY * 0.05) {
    const alive = hosts.filter((_, index) => !lost.has(index))
    const request = {
      memoryBytes: SANDBOX_MEMORY,
      preferred: alive[Math.floor(random() * alive.length)].id,
      problemOf: () => undefined,
    }
    const { chosen } = chooseHost(alive, request)
    if (chosen === undefined) continue
    totals.placed += 1
    kind = 'elsewhere'
    hostOf[sandbox] = hosts.indexOf(chosen)
    await write(sandbox, startS, { host: chosen.id, generation: located[sandbox].entry.generation + 1 })
  }
  const host = hostOf[sandbox]
  await write(sandbox, startS, { state: 'running' })
  awake[host].memory += SANDBOX_MEMORY
  hosts[host].room.memoryFreeBytes -= SANDBOX_MEMORY
  totals.awakeBytes += SANDBOX_MEMORY
  totals.peakAwakeBytes = Math.max(totals.peakAwakeBytes, totals.awakeBytes)
  totals.awakeByteSeconds += SANDBOX_MEMORY * awakeS
  // Wakes of one host that come at once share its processors.
  const busy = awake[host]
  busy.waking = Math.max(0, busy.waking - (startS - (busy.lastS ?? 0)) * CPUS) + WAKE_CPU_S
  busy.lastS = startS
  latencies.push(lognormal(random, WAKE_MS[kind], 0.3) + (busy.waking / CPUS) * 1000)
  awakeUntil[sandbox] = startS + awakeS
  push(sleeping, { sandbox, host, changedBytes, endS: startS + awakeS })
}
await fallAsleep(Number.POSITIVE_INFINITY)
latencies.sort((one, other) => one - other)
const at = (part) => latencies[Math.floor(part * (latencies.length - 1))].toFixed(0)
const leasesPerS = (HOSTS * 6 * 1000) / LEASE_MS
const daySeconds = ((performance.now() - dayBegan) / 1000).toFixed(0)
const peakWrites = Math.max(...writesAt.slice(0, -1)) / 60
const meanWrites = writesAt.reduce((sum, count) => sum + count, 0) / 86_400
const alwaysOn = (SANDBOXES * SANDBOX_MEMORY) / HOST_MEMORY
const needed = totals.peakAwakeBytes / (HOST_MEMORY * 0.8)

console.log(`\nOne day: ${latencies.length} wakes (${daySeconds} s of computing).`)
console.table({
  'directory writes per second, mean': meanWrites.toFixed(0),
  'directory writes per second, busiest minute': peakWrites.toFixed(0),
  'lease renewals per second': leasesPerS.toFixed(0),
  'wakes placed on another host': totals.placed,
  'depot: uploaded per day, GB': (totals.uploadedBytes / 1e9).toFixed(0),
  'depot: uploaded at the mean, MB/s': (totals.uploadedBytes / 86_400 / 1e6).toFixed(0),
  'wake p50 / p90 / p99 / p99.9, ms': `${at(0.5)} / ${at(0.9)} / ${at(0.99)} / ${at(0.999)}`,
  'hosts for the memory that is awake at once': needed.toFixed(1),
  'hosts if every sandbox were always on': alwaysOn.toFixed(0),
  'cost compared with always on': `${((100 * needed) / alwaysOn).toFixed(2)} %`,
})

const store = new MemoryStore()
const depot = new Depot({ store, key, clockMs: 0 })
const roots = []
for (let index = 0; index < COLLECTED_SANDBOXES; index += 1) {
  const part = await depot.putList(`part-${index}`, {
    parts: [],
    chunks: [`${randomBytes(24).toString('hex')}-0`],
  })
  const root = await depot.putList(`all-${index}`, { parts: [part], chunks: [] })
  if (index % 2 === 0) roots.push(root)
}
store.nowMsValue = 10 * 86_400_000
const collectBegan = performance.now()
const collected = await collectDepot(depot, {
  roots: async () => roots,
  namedBy: ({ parts, chunks }) => ({ lists: parts, chunks }),
})
const collectS = (performance.now() - collectBegan) / 1000
await depot[Symbol.asyncDispose]()
console.log(
  `\nCollection of ${COLLECTED_SANDBOXES} snapshots: ${collected.removed} objects removed, ${collected.kept} kept, ` +
    `${((1000 * collectS) / roots.length).toFixed(2)} ms for each snapshot in use.`,
)
console.table(await measureNats({ key, wanted: peakWrites + leasesPerS }))
