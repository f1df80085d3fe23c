import { setTimeout as sleep } from 'node:timers/promises'
import type { Burrow } from '@dormouse/engine'
import type { Log } from '../log.ts'

const RETRY_MS = 1_000
const RETRY_MAX_MS = 60_000

/**
 * Ends a burrow that no row names. If the engine cannot end it, this returns all the same and retries in the
 * background. The next start ends what is left when the server ends.
 */
export async function endBurrow({ log }: { log: Log }, burrow: Burrow | undefined): Promise<void> {
  await burrow?.destroy().catch((error: unknown) => {
    const { id: burrowId, sandboxId } = burrow
    log.warn({ sandboxId, burrowId, err: error }, 'a burrow could not be removed yet')
    void retryDestroy(burrow)
  })
}

async function retryDestroy(burrow: Burrow): Promise<void> {
  for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(pauseMs * 2, RETRY_MAX_MS)) {
    await sleep(pauseMs, undefined, { ref: false })
    const [outcome] = await Promise.allSettled([burrow.destroy()])
    if (outcome.status === 'fulfilled') return
  }
}
