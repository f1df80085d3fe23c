import { setTimeout as sleep } from 'node:timers/promises'

/** What stands in the way, such as too many open files, is most often gone by then. */
const AGAIN_MS = 500

/**
 * Does what nobody may be left without: now, and when that fails again and again, in the background, until it works or `isOver`. Never
 * throws, and waits for the first attempt only.
 */
export async function insist(step: () => Promise<void>, isOver: () => boolean): Promise<void> {
  const isDone = () =>
    step().then(
      () => true,
      () => false,
    )
  if (await isDone()) return
  void (async () => {
    do await sleep(AGAIN_MS, undefined, { ref: false })
    while (!isOver() && !(await isDone()))
  })()
}
