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

/** An agent that is being told who it is. */
export interface Introducing {
  readonly burrow: LinuxBurrow
  readonly introduced: Promise<void>
}

/** Connects to the agent and sends the introduction, which the agent reads as soon as it runs. */
export function beginIntroduction(
  host: BurrowHost,
  launched: LaunchedBurrow,
  { sandboxId, reason, reseed, user, env }: Introduction,
): Introducing {
  const burrow = new LinuxBurrow(host, launched)
  const introduced = burrow.guest.wake({
    sandboxId,
    reason,
    reseed,
    ...(user && { user }),
    ...(env && { env }),
  })
  // `publish` awaits it, unless the restore fails first.
  introduced.catch(() => {})
  return { burrow, introduced }
}

/**
 * The second half of a restore: tells the agent who it is now, unless `begun` does already, and publishes the burrow's
 * record. On failure the caller removes the burrow.
 */
export async function introduceBurrow(
  host: BurrowHost,
  launched: LaunchedBurrow,
  introduction: Introduction,
  begun?: Introducing,
): Promise<LinuxBurrow> {
  const { burrow, introduced } = begun ?? beginIntroduction(host, launched, introduction)
  await burrow.publish(introduced)
  recordTouchedSoon(burrow)
  return burrow
}
