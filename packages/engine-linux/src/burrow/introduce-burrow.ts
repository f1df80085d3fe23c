import type { SandboxId } from '@dormouse/contracts'
import type { BurrowHost } from './burrow-host.ts'
import type { LaunchedBurrow } from './launch-burrow.ts'
import { LinuxBurrow } from './linux-burrow.ts'
import { recordTouchedSoon } from './record-touched.ts'

/** What the engine tells the restored agent about itself. */
export interface Introduction {
  readonly sandboxId: SandboxId
  readonly reason: 'create' | 'resume' | 'fork' | 'rollback'
  /** Whether random generators get a new seed. */
  readonly reseed: boolean
  readonly user?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

/**
 * The second half of a restore: tells the agent who it is now and publishes the burrow's record. On failure the caller
 * removes the burrow.
 */
export async function introduceBurrow(
  host: BurrowHost,
  launched: LaunchedBurrow,
  { sandboxId, reason, reseed, user, env }: Introduction,
): Promise<LinuxBurrow> {
  const burrow = new LinuxBurrow(host, launched)
  const introduced = burrow.guest.wake({
    sandboxId,
    reason,
    reseed,
    ...(user && { user }),
    ...(env && { env }),
  })
  await burrow.publish(introduced)
  recordTouchedSoon(burrow)
  return burrow
}
