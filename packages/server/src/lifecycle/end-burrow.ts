import type { Burrow } from '@dormouse/engine'
import type { LifecycleParts } from './parts.ts'

/** Ends a burrow that no row speaks of any more: what is left of it because of a failure goes at the next start. */
export async function endBurrow(
  { log }: Pick<LifecycleParts, 'log'>,
  burrow: Burrow | undefined,
): Promise<void> {
  await burrow?.destroy().catch((error: unknown) => {
    const { id: burrowId, sandboxId } = burrow
    log.warn({ sandboxId, burrowId, err: error }, 'a burrow that nobody needs could not be removed')
  })
}
