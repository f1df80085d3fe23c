import { readdir, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { dumpDeadlineMs } from '../snapshot/saver.ts'
import type { LinuxBurrow } from './linux-burrow.ts'
import { findProcess } from './process-status.ts'

const POLL_MS = 20
/** After its deadline CRIU has ended, and the burrow with it, but for a moment. */
const ENDING_MS = 10_000
const AGENT_PID_INSIDE = 2
const SIGSTOP_MASK = 1n << 18n

/**
 * A dump outlives the server that began it: only its deadline cuts it off. Post: no process of ours is in the burrow any more, as
 * far as waiting helps.
 */
export async function waitForDump(burrow: LinuxBurrow): Promise<void> {
  const { memoryBytes } = await burrow.usage()
  const deadline = performance.now() + dumpDeadlineMs(memoryBytes) + ENDING_MS
  while ((await hasVisitors(burrow)) && performance.now() < deadline) await sleep(POLL_MS)
}

/**
 * True for a burrow whose processes a dump has stopped, with nobody left to let them go on. Nothing inside can stop the agent. While it
 * is frozen, the signal that stops it waits.
 */
export async function wasLeftStopped(burrow: LinuxBurrow): Promise<boolean> {
  for (const pid of await burrow.pids()) {
    const found = findProcess(pid)
    if (found?.insidePid !== AGENT_PID_INSIDE) continue
    return found.state === 'T' || (found.pendingSignals & SIGSTOP_MASK) !== 0n
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
