// Measures a server with many sleeping sandboxes: memory, disk, idle CPU, lists, a restart after kill -9, and wakes.
// `--state DIR` keeps the sandboxes, so that ten thousand can be made in several runs (`--make`) and measured in one.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Layout } from '../packages/engine-linux/dist/host/layout.js'
import { describeFrozen, measureFrozen } from './many/frozen.mjs'
import { CHANGE_BYTES, makeSleeping } from './many/make-sleeping.mjs'
import { diskBytes, measureWakes, untilFolded } from './many/observe.mjs'
import { describeStored, measureStored } from './many/stored.mjs'
import { report } from './measure.mjs'
import { clientOf } from './server/client.mjs'
import { startServer } from './server/start-server.mjs'
import { readOptions, removeState } from './workbench.mjs'

const options = readOptions({
  count: { type: 'string' },
  frozen: { type: 'string' },
  only: { type: 'string', default: 'stored,frozen' },
  state: { type: 'string' },
  make: { type: 'boolean', default: false },
})
const parts = options.only.split(',')
const COUNT = Number(options.count ?? (options.quick ? 20 : 1000))
const FROZEN = Number(options.frozen ?? (options.quick ? 10 : 1000))
const times = options.quick ? { wakes: 5, idleSeconds: 3 } : { wakes: 40, idleSeconds: 20 }
const FEW = 10

if (options.make) await withServer(makeMore)
else {
  if (parts.includes('stored')) await reportStored()
  if (parts.includes('frozen')) await withNewServer(reportFrozen)
}

async function reportStored() {
  const wakeWithFew = await withNewServer(async ({ client }) => {
    const few = await makeSleeping(client, { count: FEW, tier: 'stored' })
    return measureWakes(client, few, { tier: 'stored', times: times.wakes })
  })
  await withServer(async (context) => {
    const { sandboxes, diskPerSandbox } = await makeMore(context)
    const measured = await measureStored({ ...context, ...times, sandboxes })
    const result = { ...measured, diskPerSandbox, wakeWithFew }
    await report({ name: 'many', options, result, text: describeStored(result) })
  })
}

async function reportFrozen({ server, client }) {
  const result = await measureFrozen(server, client, { ...times, count: FROZEN })
  await report({ name: 'frozen', program: 'many', options, result, text: describeFrozen(result) })
}

/** Makes sandboxes until there are `COUNT`. The first ones do not count for the disk: they share what they need. */
async function makeMore({ client, stateDir }) {
  const path = join(stateDir, 'made.json')
  const made = existsSync(path) ? JSON.parse(await readFile(path, 'utf8')) : { sandboxes: [] }
  const { sandboxes } = made
  const until = async (count) => {
    const missing = { count: count - sandboxes.length, tier: 'stored', from: sandboxes.length }
    if (missing.count > 0) sandboxes.push(...(await makeSleeping(client, missing)))
    await writeFile(path, JSON.stringify(made))
  }
  await until(FEW)
  if (made.diskBefore === undefined) {
    await untilFolded(stateDir)
    made.diskBefore = diskBytes(stateDir)
  }
  await until(COUNT)
  await untilFolded(stateDir)
  const added = sandboxes.length - FEW
  return { sandboxes, diskPerSandbox: (diskBytes(stateDir) - made.diskBefore) / added - CHANGE_BYTES }
}

/** Runs `work` with a server on the directory of `--state`, which stays, or on a new one. */
async function withServer(work) {
  if (options.state === undefined) return withNewServer(work)
  await mkdir(options.state, { recursive: true, mode: 0o711 })
  return serve(options.state, work)
}

async function withNewServer(work) {
  const stateDir = await mkdtemp(join(options.data, 'bench-'))
  try {
    return await serve(stateDir, work)
  } finally {
    await removeState({ dataDir: options.data, stateDir, layout: new Layout(stateDir, options.data) })
  }
}

async function serve(stateDir, work) {
  let server = await startServer(stateDir, options.data)
  const client = clientOf(server)
  const restart = async () => {
    client.close()
    server.child.kill('SIGKILL')
    await once(server.child, 'exit')
    const began = performance.now()
    server = await startServer(stateDir, options.data)
    return { readyMs: performance.now() - began, client: clientOf(server) }
  }
  try {
    return await work({ server, client, restart, stateDir })
  } finally {
    client.close()
    server.child.kill('SIGTERM')
    await once(server.child, 'exit')
  }
}
