import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { cannotBeSaved } from './explain-criu.ts'
import { inspectProcesses } from './inspect-processes.ts'

/** How long to wait for a condition that passes by itself. */
const PASSING_MS = 2_000
const AGAIN_MS = 5

/**
 * Freezes a burrow and checks its processes. Post: nothing in it runs, every process descends from the agent and is
 * confined as it was started. Otherwise throws `snapshot_refused`; then the burrow may be frozen until
 * `resumeAfterFailedSave`.
 */
export async function freezeForDump(burrow: LinuxBurrow): Promise<void> {
  const deadline = performance.now() + PASSING_MS
  for (;;) {
    await burrow.freeze()
    const objection = await inspectProcesses({
      firstPid: burrow.first.pid,
      members: await burrow.membersByCgroup(),
    })
    if (objection === undefined) return
    const { pid, reason, isPassing } = objection
    if (!isPassing || performance.now() > deadline) throw cannotBeSaved(pid, reason)
    await burrow.thaw()
    await sleep(AGAIN_MS)
  }
}
