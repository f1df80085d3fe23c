import { readdir, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { findProcess } from '../process/process-status.ts'
import { dumpDeadlineMs } from './dump-process.ts'

const POLL_MS = 20
/** How long CRIU and the burrow may take to end after the deadline. */
const ENDING_MS = 10_000
const AGENT_PID_INSIDE = 2
const SIGSTOP_MASK = 1n << 18n

/**
 * Waits for a dump that an earlier server began: it outlives that server, and only its deadline cuts it off. Post: CRIU
 * is not in the burrow any more, unless it missed its deadline.
 */
export async function waitForDump(burrow: LinuxBurrow): Promise<void> {
  const { memoryBytes } = await burrow.usage()
  const deadline = performance.now() + dumpDeadlineMs(memoryBytes) + ENDING_MS
  while ((await isCriuInside(burrow)) && performance.now() < deadline) await sleep(POLL_MS)
}

/**
 * Whether a dump stopped the processes of a burrow and did not let them continue. The agent tells: no process inside
 * can stop it. While the burrow is frozen, the signal that stops the agent is pending.
 */
export async function wasLeftStopped(burrow: LinuxBurrow): Promise<boolean> {
  for (const pid of await burrow.pids()) {
    const found = findProcess(pid)
    if (found?.insidePid !== AGENT_PID_INSIDE) continue
    return found.state === 'T' || (found.pendingSignals & SIGSTOP_MASK) !== 0n
  }
  return false
}

/** Whether CRIU is at work: a process in the burrow's mount namespace that is not in its cgroups. */
async function isCriuInside(burrow: LinuxBurrow): Promise<boolean> {
  // Undefined for a process that has ended.
  const namespaceOf = (pid: string | number) => readlink(`/proc/${pid}/ns/mnt`).catch(() => undefined)
  const own = await namespaceOf(burrow.first.pid)
  if (own === undefined) return false
  const all = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const within = await Promise.all(all.map(async (pid) => (await namespaceOf(pid)) === own && Number(pid)))
  const members = new Set(await burrow.pids())
  return within.some((pid) => pid !== false && pid !== burrow.first.pid && !members.has(pid))
}
