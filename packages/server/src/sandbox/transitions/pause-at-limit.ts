import { hasErrorCode } from '@dormouse/contracts'
import { pausedError } from '../paused.ts'
import type { Sandbox } from '../sandbox.ts'
import { requireExists } from '../sandbox-errors.ts'
import { standby } from './standby.ts'

/** A sandbox that could not be saved this many times is killed at its limit after all, instead of waiting for ever. */
const REFUSALS_MAX = 3

/**
 * Saves a sandbox whose processes wait at its memory limit, and puts it to sleep on disk until the limit is raised.
 * Does nothing if the limit was raised meanwhile.
 */
export async function pauseAtLimit(sandbox: Sandbox): Promise<void> {
  const { burrow } = sandbox
  if (burrow === undefined) return
  const { memoryBytes } = burrow.limits
  try {
    // Before the lock, too: a call that holds it may wait for the agent, which may wait for memory.
    await burrow.withHeadroom(() =>
      sandbox.exclusive(async () => {
        requireExists(sandbox)
        const { row } = sandbox
        const isAsBefore = sandbox.burrow === burrow && row.limits.memoryBytes === memoryBytes
        if (row.state !== 'running' || !isAsBefore || row.atMemoryLimit !== 'pause') return
        await standby(sandbox, { tier: 'stored', cause: 'memory_limit', pausedAtBytes: memoryBytes })
        for (const listener of sandbox.deps.listeners)
          listener.paused?.(sandbox.row, pausedError(sandbox.row))
      }),
    )
  } catch (error) {
    const count = sandbox.refusal?.count ?? 0
    if (hasErrorCode(error, 'snapshot_refused') && count >= REFUSALS_MAX)
      await burrow.setLimits({ atMemoryLimit: 'kill' })
    throw error
  }
}
