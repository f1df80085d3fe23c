import type { Log } from '../log.ts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'

/**
 * Stops what the sandboxes of this host do outside, at once and without waiting, when the lease has ended. The gates'
 * thread looks at the deadline of the lease by itself; this ends the rest.
 */
export function stopEffects({ sandboxes, network }: SandboxDependencies, log: Log): void {
  for (const sandbox of sandboxes.all()) {
    const { burrow, id, row } = sandbox
    if (burrow === undefined || row.state === 'standby') continue
    network.shut(id)
    burrow.freeze().catch((err: unknown) => log.error({ sandboxId: id, err }, 'a burrow could not be frozen'))
  }
}

/** Lets the sandboxes that are still this host's continue. Pre: the host has a lease and has claimed them again. */
export async function resumeEffects({ sandboxes, network }: SandboxDependencies, log: Log): Promise<void> {
  for (const sandbox of sandboxes.all()) {
    const { burrow, id, row } = sandbox
    if (burrow === undefined || row.state === 'standby' || sandbox.isDeleted) continue
    await burrow
      .thaw()
      .catch((err: unknown) => log.error({ sandboxId: id, err }, 'a burrow could not be thawed'))
    await network.open(sandbox, burrow)
  }
}
