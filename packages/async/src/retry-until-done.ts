import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Runs `step`; on failure retries in the background until it succeeds or `isOver()`. Waits for the first attempt only,
 * and never throws: `onFailure` hears of each failure.
 */
export async function retryUntilDone(
  step: () => Promise<void>,
  options: {
    readonly delayMs: number
    readonly isOver: () => boolean
    readonly onFailure: (error: unknown) => void
  },
): Promise<void> {
  const succeeds = () =>
    step().then(
      () => true,
      (error: unknown) => {
        options.onFailure(error)
        return false
      },
    )
  if (await succeeds()) return
  void (async () => {
    do await sleep(options.delayMs, undefined, { ref: false })
    while (!options.isOver() && !(await succeeds()))
  })()
}
