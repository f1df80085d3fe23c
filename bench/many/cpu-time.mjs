import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

const TICKS_PER_SECOND = 100
/** Until the server has done what follows from the last request. */
const SETTLE_MS = 3000

/** What `measureIdleShare` counts, for the text below a table. */
export const COUNTED_CPU =
  'CPU time is that of all threads of the server, of every process below it in the tree of processes, and of those below it that ended meanwhile.'

/** The share of one core that the server and the processes it started use while no request comes. */
export async function measureIdleShare({ child }, seconds) {
  await sleep(SETTLE_MS)
  const before = await readTicks(child.pid)
  const began = performance.now()
  await sleep(seconds * 1000)
  const tookSeconds = (performance.now() - began) / 1000
  return ((await readTicks(child.pid)) - before) / TICKS_PER_SECOND / tookSeconds
}

/**
 * CPU time of a process, of all below it, and of those below it that have ended. What has ended stays in the count of
 * its parent, so the sum never falls while the tree stays together.
 */
async function readTicks(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  if (stat === undefined) return 0
  const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ')
  const [user, system, childUser, childSystem] = fields.slice(11, 15).map(Number)
  let ticks = user + system + childUser + childSystem
  for (const child of await childrenOf(pid)) ticks += await readTicks(child)
  return ticks
}

async function childrenOf(pid) {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const lists = threads.map((thread) =>
    readFile(`/proc/${pid}/task/${thread}/children`, 'latin1').catch(() => ''),
  )
  return (await Promise.all(lists)).flatMap((list) => list.split(' ').filter(Boolean))
}
