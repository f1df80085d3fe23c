// What the directory costs every host of a cluster: its memory, and the time to read it at the start. The real directory
// over a real nats-server on loopback; a process of its own reads it. Options: --entries 10000,100000

import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { arch, release } from 'node:os'
import { fileURLToPath } from 'node:url'
import { ClusterKey, Directory } from '@dormouse/cluster'
import { newSandboxId, newSnapshotId } from '@dormouse/contracts'
import { withNats } from './fleet/loopback-nats.mjs'
import { megabytes, report, table } from './measure.mjs'
import { requirePackages } from './require-packages.mjs'
import { readOptions } from './workbench.mjs'

const WRITERS = 256
const MILLION = 1_000_000

/** As the engine reads it: the largest part of an entry. */
const FINGERPRINT = {
  ...{ arch: arch(), kernel: release() },
  cpuFlags: /^(?:flags|Features)\s*:\s*(.*)$/m
    .exec(readFileSync('/proc/cpuinfo', 'latin1'))[1]
    .split(/\s+/)
    .sort(),
}

const options = readOptions({ entries: { type: 'string' } })
requirePackages('nats-server')
const counts = (options.entries ?? (options.quick ? '1000,2000' : '10000,100000')).split(',').map(Number)
const secret = randomBytes(32)
const key = new ClusterKey(secret)

const measured = []
for (const count of counts) measured.push(await measureDirectory(count))
await report({ name: 'directory', options, result: measured, text: describe(measured), page: 'scale.md' })

async function measureDirectory(count) {
  return await withNats(key, async ({ url, connection }) => {
    await fill(connection, count)
    const reader = fork(
      fileURLToPath(new URL('fleet/open-directory.mjs', import.meta.url)),
      [url, secret.toString('base64')],
      { execArgv: ['--expose-gc', '--max-old-space-size=8000'] },
    )
    const [found] = await Promise.race([
      once(reader, 'message'),
      once(reader, 'exit').then(() => Promise.reject(new Error('the reader ended without a result'))),
    ])
    const { entries, tookMs, before, after } = found
    if (entries !== count) throw new Error(`${entries} of ${count} entries were read`)
    const storedBytes = (await connection.directory.status()).streamInfo.state.bytes
    return {
      ...{ entries, tookMs, bytesEach: (after.heapBytes - before.heapBytes) / count },
      ...{ rssBytesEach: (after.rssBytes - before.rssBytes) / count, storedBytesEach: storedBytes / count },
      textBytes: Buffer.byteLength(JSON.stringify(newEntry(newSandboxId()))),
    }
  })
}

async function fill(connection, count) {
  const directory = await Directory.open({ bucket: connection.directory, key })
  let left = count
  const write = async () => {
    while (left > 0) {
      left -= 1
      const id = newSandboxId()
      await directory.add(id, newEntry(id))
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, write))
  directory[Symbol.dispose]()
}

/** As a host writes it for a sandbox that sleeps in the depot and was not changed from its defaults. */
function newEntry(id) {
  const head = newSnapshotId()
  const at = 1_763_500_000_000
  const build = { name: 'python', hash: '5c1f0d2e9ab34c7788aa', builtAt: new Date(at).toISOString() }
  return {
    ...{ host: 'host-0a1b2c3d4e', epoch: 3, generation: 0, owner: 'key_01jd3r8s9t', state: 'standby' },
    ...{ head, createdAt: at, ancestors: [] },
    replica: {
      ...{ snapshotId: head, list: `all-snapshot-${head}-20411`, createdAt: new Date(at).toISOString() },
      needs: {
        template: build,
        processes: {
          ...{ tools: 'a41f09c2', criuVersion: '4.2.1' },
          fingerprint: FINGERPRINT,
        },
      },
      bytes: 120_000_000,
    },
    row: {
      ...{
        id,
        owner: 'key_01jd3r8s9t',
        name: `agent-${id.slice(-8)}`,
        template: 'python',
        isolation: 'process',
      },
      ...{
        state: 'standby',
        tier: 'stored',
        head,
        headOf: id,
        env: {},
        volumes: [],
        metadata: { user: 'u-1' },
      },
      limits: { memoryBytes: 2 ** 31, cpus: 2, pids: 1024, diskBytes: 10 * 2 ** 30, files: 1_000_000 },
      ...{ idleTimeoutMs: 60_000, storeAfterMs: 60_000, maxBackgroundMs: 3_600_000, wakeOnTimer: true },
      ...{ atMemoryLimit: 'pause', checkpointEveryMs: 0, connections: 'keep', ephemeral: false },
      ...{ network: { mode: 'open', allow: [] }, secrets: [] },
      ...{ createdAt: at, lastActiveAt: at, stateSince: at },
    },
  }
}

function describe(found) {
  const count = (value) => Math.round(value).toLocaleString('en')
  const rows = found.map(({ entries, bytesEach, rssBytesEach, storedBytesEach, tookMs }) => [
    ...[count(entries), `${count(bytesEach)} bytes`, `${count(rssBytesEach)} bytes`],
    ...[`${count(storedBytesEach)} bytes`, `${(tookMs / 1000).toFixed(1)} s`],
  ])
  const largest = found.at(-1)
  // A million takes this machine too long to fill.
  const computed = [
    `${count(MILLION)} (computed)`,
    `${megabytes(largest.bytesEach * MILLION)} MB in all`,
    `${megabytes(largest.rssBytesEach * MILLION)} MB in all`,
    `${megabytes(largest.storedBytesEach * MILLION)} MB in all`,
    `${count((largest.tookMs / largest.entries) * 1000)} s`,
  ]
  const head = [
    'sandboxes',
    'heap, each',
    'resident, each',
    'on the disk of NATS, each',
    'reading all at the start',
  ]
  return `What the directory costs every host, with entries of ${count(largest.textBytes)} bytes:\n\n${table(head, [...rows, computed])}`
}
