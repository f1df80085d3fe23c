// Measures a cluster of three hosts on one machine: wakes on another host, the depot compared with its store, jobs,
// what a hop adds to a request, and lists of many sandboxes.
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ClusterKey, connectCluster, Directory } from '@dormouse/cluster'
import { newSandboxId } from '@dormouse/contracts'
import { Layout } from '../packages/engine-linux/dist/host/layout.js'
import { measureDepot } from './cluster/depot.mjs'
import { describeCluster } from './cluster/describe.mjs'
import { measureHop } from './cluster/hop.mjs'
import { measureJobs } from './cluster/jobs.mjs'
import { measureFileWakes, measureWakes } from './cluster/wakes.mjs'
import { measure, report } from './measure.mjs'
import { clientOf } from './server/client.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions()
const REQUESTS = options.quick ? 300 : 3_000
const SANDBOXES = 10_000
const LISTS = options.quick ? 10 : 50
const HOSTS = 3
const WAKES = options.quick ? 1 : 4
const TASKS = options.quick ? 60 : 600

const directory = await mkdtemp(join(options.data, 'bench-'))
const keyBytes = randomBytes(32)
const keyFile = join(directory, 'cluster.key')
await writeFile(keyFile, keyBytes.toString('base64'))
const natsPort = await freePort()
const nats = spawn(
  'nats-server',
  ['--addr', '127.0.0.1', '--port', String(natsPort), '--jetstream', '--store_dir', join(directory, 'nats')],
  { stdio: 'ignore' },
)
const servers = [`nats://127.0.0.1:${natsPort}`]
const hosts = []
try {
  await sleep(500)
  for (let index = 0; index < HOSTS; index += 1) {
    const stateDir = await mkdtemp(join(options.data, 'bench-'))
    // Several servers on one machine: each has a port of its own.
    const settings = { port: await freePort(), ssh: { enabled: false }, cluster: { servers, keyFile } }
    hosts.push({ stateDir, ...(await startServer(stateDir, options.data, settings)) })
  }
  const clients = hosts.map(({ url }) => clientOf({ url, key: hosts[0].key, connections: 1 }))
  const [one, two] = clients
  const depot = await measureDepot({ servers, key: new ClusterKey(keyBytes) })
  const wakes = await measureWakes([one, two], { times: WAKES, stateDir: hosts[1].stateDir })
  const files = await measureFileWakes([one, two], { times: WAKES })
  const jobs = await measureJobs(one, { count: TASKS, atOnce: 2 * HOSTS })
  const hop = await measureHop(one, two, REQUESTS)
  const result = { depot, wakes, files, jobs, hop, list: await measureLists(two) }
  await report({
    name: 'cluster',
    options,
    result,
    text: describeCluster(result, { hosts: HOSTS, sandboxes: SANDBOXES }),
  })
  for (const client of clients) client.close()
} finally {
  for (const { child } of hosts) {
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  nats.kill('SIGTERM')
  await once(nats, 'exit')
  for (const { stateDir } of hosts)
    await removeState({ dataDir: options.data, stateDir, layout: new Layout(stateDir, options.data) })
  await rm(directory, { recursive: true, force: true })
}

/** The directory gets sandboxes of a host that is not there: listing them asks no host. */
async function measureLists(client) {
  const connection = await connectCluster({
    ...{ servers, replicas: 1, key: new ClusterKey(keyBytes), hostId: 'bench' },
  })
  const owner = (await client.call('GET', '/v1/keys')).items[0].id
  const sample = await client.create({ metadata: { team: 'none' } })
  await sleep(500)
  const entries = await Directory.open({ bucket: connection.directory, key: connection.key })
  const like = entries.find(sample.id)?.entry
  let next = 0
  const add = async () => {
    while (next < SANDBOXES) {
      const index = next++
      const id = newSandboxId()
      const metadata = { team: `t${index % 10}` }
      const row = { ...like.row, id, owner, name: `bench-${index}`, state: 'standby', metadata }
      const createdAt = like.createdAt - index
      const entry = { ...like, host: 'bench', state: 'standby', name: row.name, owner, createdAt }
      await entries.add(id, { ...entry, row: { ...row, createdAt } })
    }
  }
  await Promise.all(Array.from({ length: 64 }, add))
  await sleep(3_000)
  const lists = {
    'page of 100': '?limit=100',
    'page of 1,000': '?limit=1000',
    'by state, page of 100': '?limit=100&state=standby',
    'by metadata (1,000 match), page of 1,000': '?limit=1000&metadata.team=t3',
    'by name': '?name=bench-9999',
  }
  const result = {}
  for (const [title, query] of Object.entries(lists)) {
    const { items } = await client.call('GET', `/v1/sandboxes${query}`)
    if (items.length === 0) throw new Error(`${title}: there is nothing`)
    const work = () => client.call('GET', `/v1/sandboxes${query}`)
    result[title] = { items: items.length, ...(await measure({ warmUp: 3, times: LISTS, work })) }
  }
  await client.remove(sample.id)
  await connection[Symbol.asyncDispose]()
  return result
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
