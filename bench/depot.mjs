// node bench/depot.mjs [--megabytes N] [--times N]: see bench/README.md
//
// A sandbox wakes on another host, compared with a stored wake on its own; and how fast the depot takes and gives
// bytes, compared with its object store alone. Two hosts and NATS run on this machine. Only prints.
import { randomBytes } from 'node:crypto'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import { ClusterKey, connectCluster, Depot, JetStreamStore } from '@dormouse/cluster'
import { TestCluster } from '../tests/cluster/test-cluster.ts'
import { setup } from '../tests/server/bundle-server.ts'

const { values } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '1024' },
    times: { type: 'string', default: '3' },
    only: { type: 'string' },
  },
})
const BYTES = Number(values.megabytes) * 1024 ** 2
const STORED_BYTES = 256 * 1024 ** 2
const CHUNK_BYTES = 960 * 1024
const median = (all) => all.sort((one, other) => one - other)[Math.floor(all.length / 2)]

// The hosts run a bundle of the build.
await setup()
const cluster = await TestCluster.start({ hosts: 2, idleTimeoutMs: 0 })
try {
  if (values.only !== 'wakes') await measureThroughput(cluster.nats.url)
  if (values.only !== 'throughput') await measureWakes()
} finally {
  await cluster.cleanUp()
}

async function measureThroughput(url) {
  const key = new ClusterKey(randomBytes(32))
  const hostId = 'bench'
  // Another key than the one of the cluster: a connection without its buckets.
  const { nats, manager, jetstream, close } = await connectAlone(url, key, hostId)
  const store = await JetStreamStore.open({ jetstream, manager, replicas: 1 })
  const pieces = Array.from({ length: Math.floor(STORED_BYTES / CHUNK_BYTES) }, () =>
    randomBytes(CHUNK_BYTES),
  )
  const bytes = pieces.length * CHUNK_BYTES
  let began = performance.now()
  const next = pieces.entries()
  const send = async () => {
    for (const [index, piece] of next) await store.put(`bare-${index}-0`, piece, { keepsFirst: true })
  }
  await Promise.all(Array.from({ length: 8 }, send))
  const bare = bytes / (performance.now() - began) / 1000
  const depot = new Depot({ store, key })
  began = performance.now()
  const { chunks } = await depot.storeStream(Readable.from(pieces))
  const upload = bytes / (performance.now() - began) / 1000
  began = performance.now()
  for await (const _ of depot.load(chunks));
  const download = bytes / (performance.now() - began) / 1000
  console.table({
    'object store alone, MB/s': bare.toFixed(0),
    'upload, MB/s': upload.toFixed(0),
    'upload compared with the store': `${((100 * upload) / bare).toFixed(0)} %`,
    'download, MB/s': download.toFixed(0),
  })
  await depot[Symbol.asyncDispose]()
  await close(nats)
}

async function connectAlone(url, key, hostId) {
  const connection = await connectCluster({ servers: [url], replicas: 1, key, hostId }).catch(() => undefined)
  if (connection !== undefined) return { ...connection, close: () => connection[Symbol.asyncDispose]() }
  const { connect } = await import('@nats-io/transport-node')
  const { jetstream, jetstreamManager } = await import('@nats-io/jetstream')
  const nats = await connect({ servers: [url] })
  return {
    nats,
    jetstream: jetstream(nats),
    manager: await jetstreamManager(nats),
    close: () => nats.close(),
  }
}

async function measureWakes() {
  const [one, two] = cluster.hosts
  const { key } = one
  const asleep = { json: { tier: 'stored', durability: 'cluster' }, key }
  const local = []
  const elsewhere = []
  const parts = []
  for (let time = 0; time < Number(values.times); time += 1) {
    const { id } = await one
      .ok('/v1/sandboxes', { json: { limits: { memoryMb: 4096 } }, key })
      .catch(() => one.ok('/v1/sandboxes', { json: {}, key }))
    const run = async (host, code) => {
      const began = performance.now()
      const { stdout, error } = await host.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })
      if (error) throw new Error(JSON.stringify(error))
      return { ms: performance.now() - began, stdout }
    }
    await run(one, `import os\nblob = [os.urandom(1 << 20) for _ in range(${BYTES >> 20})]\nn = 1`)
    for (let sleep = 0; sleep < 3; sleep += 1) {
      await one.ok(`/v1/sandboxes/${id}/standby`, asleep)
      local.push((await run(one, 'n += 1; print(n)')).ms)
      await new Promise((resolve) => setTimeout(resolve, 700))
    }
    await one.ok(`/v1/sandboxes/${id}/standby`, asleep)
    const { items } = await one.ok('/v1/nodes', { key })
    await one.ok(`/v1/sandboxes/${id}/move`, { json: { node: items.find(({ isSelf }) => !isSelf).id }, key })
    elsewhere.push((await run(two, 'n += 1; print(n)')).ms)
    parts.push((await arrivedBytes(two)) / BYTES)
    await two.ok(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
  }
  console.table({
    'memory of the sandbox, MB': BYTES / 1024 ** 2,
    'stored wake on its own host, ms': median(local).toFixed(0),
    'wake on another host until the first result, ms': median(elsewhere).toFixed(0),
    'compared with the stored wake': `${(median(elsewhere) / median(local)).toFixed(1)} times`,
    'of its memory has moved by then': `${(100 * Math.max(...parts)).toFixed(1)} %`,
  })
}

async function arrivedBytes({ factory }) {
  const snapshots = join(factory.stateDir, 'snapshots')
  let bytes = 0
  for (const name of (await readdir(snapshots)).filter((entry) => entry.startsWith('sn-'))) {
    const memory = join(snapshots, name, 'memory')
    for (const file of await readdir(memory).catch(() => [])) {
      const { blocks, nlink } = await stat(join(memory, file))
      // Links to the memory of the template, which have not moved: the snapshot and its burrow are two.
      if (nlink <= 2) bytes += blocks * 512
    }
  }
  return bytes
}
