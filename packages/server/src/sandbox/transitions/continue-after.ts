import type { SandboxAnswer } from '@dormouse/contracts/http'
import { isPaused } from '../paused.ts'
import type { Sandbox } from '../sandbox.ts'

/**
 * Makes a change. If the sandbox was paused at its memory limit and the change raised the limit, also wakes the
 * sandbox, so that what ran in it continues. A wake that fails does not undo the change: the next call wakes it.
 */
export async function continueAfter(
  sandbox: Sandbox,
  change: () => Promise<SandboxAnswer>,
): Promise<SandboxAnswer> {
  const view = await change()
  // Read afterwards: the sandbox may have been paused while the change waited for its lock.
  const { state, pausedAtBytes } = sandbox.row
  if (state !== 'standby' || pausedAtBytes === undefined || isPaused(sandbox.row)) return view
  await sandbox.wake('limit_raised').catch((error: unknown) => {
    const fields = { sandboxId: sandbox.id, err: error }
    sandbox.deps.log.warn(fields, 'a sandbox whose memory limit was raised could not be woken')
  })
  return sandbox.view()
}
