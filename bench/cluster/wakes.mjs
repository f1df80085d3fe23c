import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { summarize } from '../measure.mjs'

const MEGABYTES = 1024
/** As many as a few large packages install. */
const FILE_MEGABYTES = 300
const FILES = 3000
const BLOCK_BYTES = 512
/** The list of what a wake touched is made soon after it. */
const TOUCHED_MS = 700
const LOCAL_WAKES = 3
/** A host that has not heard of the move yet would answer that the caller may try again. */
const TOLD_MS = 300

/** A stored wake on its own host and one on another host, each until the result of `n += 1`. */
export async function measureWakes([one, two], { times, stateDir }) {
  let movedBytes = 0
  const fill = `blob = [os.urandom(1 << 20) for _ in range(${MEGABYTES})]`
  const onArrival = async () => {
    movedBytes = Math.max(movedBytes, await arrivedBytes(stateDir))
  }
  const measured = await measureBoth([one, two], { times, fill, onArrival })
  return { megabytes: MEGABYTES, ...measured, movedPart: movedBytes / (MEGABYTES * 1024 ** 2) }
}

/** The same for a sandbox that has installed many files, and little memory. */
export async function measureFileWakes([one, two], { times }) {
  const bytes = Math.floor((FILE_MEGABYTES * 1024 ** 2) / FILES)
  const fill = `
os.makedirs('/opt/packages')
for index in range(${FILES}):
    with open(f'/opt/packages/{index}.py', 'wb') as file:
        file.write(os.urandom(${bytes} // 2) + b'# text\\n' * (${bytes} // 14))
`
  return { megabytes: FILE_MEGABYTES, count: FILES, ...(await measureBoth([one, two], { times, fill })) }
}

async function measureBoth([one, two], { times, fill, onArrival = async () => {} }) {
  const samples = { local: [], elsewhere: [] }
  const { items } = await two.call('GET', '/v1/nodes')
  const node = items.find(({ isSelf }) => isSelf).id
  for (let time = 0; time < times; time += 1) {
    const { id } = await one.create({ limits: { memoryBytes: 4 * MEGABYTES * 1024 ** 2 } })
    await one.run(id, `import os\n${fill}\nn = 1`)
    const fallAsleep = () =>
      one.call('POST', `/v1/sandboxes/${id}/standby`, { tier: 'stored', durability: 'cluster' })
    for (let count = 0; count < LOCAL_WAKES; count += 1) {
      await fallAsleep()
      samples.local.push(await wake(one, id))
      await sleep(TOUCHED_MS)
    }
    await fallAsleep()
    await one.call('POST', `/v1/sandboxes/${id}/move`, { node })
    await sleep(TOLD_MS)
    samples.elsewhere.push(await wake(two, id))
    await onArrival()
    await two.remove(id)
  }
  const [local, elsewhere] = Object.values(samples).map(summarize)
  return { local, elsewhere, ratio: elsewhere.p50 / local.p50 }
}

async function wake(client, id) {
  const began = performance.now()
  const { error } = await client.run(id, 'n += 1')
  if (error) throw new Error(JSON.stringify(error))
  return performance.now() - began
}

/** Bytes of memory files on disk. Files with more than the links of a snapshot and its burrow are the template's. */
async function arrivedBytes(stateDir) {
  const snapshots = join(stateDir, 'snapshots')
  let bytes = 0
  for (const name of (await readdir(snapshots)).filter((entry) => entry.startsWith('sn-'))) {
    const memory = join(snapshots, name, 'memory')
    for (const file of await readdir(memory).catch(() => [])) {
      const { blocks, nlink } = await stat(join(memory, file))
      if (nlink <= 2) bytes += blocks * BLOCK_BYTES
    }
  }
  return bytes
}
