import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { findState } from './first-process.ts'
import type { LinuxBurrow } from './linux-burrow.ts'

const POLL_MS = 20
/** A dump takes seconds per gigabyte on a slow disk. One that takes longer hangs, and then the burrow does not answer either. */
const DUMP_TIMEOUT_MS = 300_000
const AGENT_PID_INSIDE = '2'

/**
 * A dump outlives the server that began it: CRIU is never cut off. Post: no process of ours is in the burrow any more, as far
 * as waiting helps.
 */
export async function waitForDump(burrow: LinuxBurrow): Promise<void> {
  const deadline = Date.now() + DUMP_TIMEOUT_MS
  while ((await hasVisitors(burrow)) && Date.now() < deadline) await sleep(POLL_MS)
}

/** True for a burrow whose processes a dump has stopped, with nobody left to let them go on. Nothing inside can stop the agent. */
export async function wasLeftStopped(burrow: LinuxBurrow): Promise<boolean> {
  for (const pid of await burrow.pids()) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
    const inside = /^NSpid:.*?(?<pid>\d+)$/m.exec(status)?.groups?.['pid']
    if (inside === AGENT_PID_INSIDE) return (await findState(pid)) === 'T'
  }
  return false
}

/** Processes that see the burrow's files without being under its limits: CRIU at work. */
async function hasVisitors(burrow: LinuxBurrow): Promise<boolean> {
  const namespaceOf = (pid: string | number) => readlink(`/proc/${pid}/ns/mnt`).catch(() => undefined)
  const own = await namespaceOf(burrow.first.pid)
  if (own === undefined) return false
  const all = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const within = await Promise.all(all.map(async (pid) => (await namespaceOf(pid)) === own && Number(pid)))
  const members = new Set(await burrow.pids())
  return within.some((pid) => pid !== false && pid !== burrow.first.pid && !members.has(pid))
}
