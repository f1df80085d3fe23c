import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { cannotBeSaved } from './explain-criu.ts'
import { inspectProcesses } from './inspect-processes.ts'

/** How long to wait for a condition that passes by itself. */
const PASSING_MS = 2_000
/** The first pause between two freezes. Each later one is twice as long: a busy host needs more time to run a child. */
const PAUSE_MS = 5
const PAUSE_MAX_MS = 200

/**
 * Freezes a burrow and checks its processes. Post: nothing in it runs, every process descends from the agent and is
 * confined as it was started. Otherwise throws `snapshot_refused`; then the burrow may be frozen until
 * `resumeAfterFailedSave`.
 */
export async function freezeForDump(burrow: LinuxBurrow, signal?: AbortSignal): Promise<void> {
  const deadline = performance.now() + PASSING_MS
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
    signal?.throwIfAborted()
    await burrow.freezeInSave()
    const objection = await inspectProcesses({
      firstPid: burrow.first.pid,
      members: await burrow.membersByCgroup(),
    })
    if (objection === undefined) return burrow.memoryPause.giveAll(burrow.limits)
    const { pid, reason, isPassing } = objection
    if (!isPassing || performance.now() > deadline) throw cannotBeSaved(pid, reason)
    await burrow.thawInSave()
    await sleep(pauseMs)
  }
}
