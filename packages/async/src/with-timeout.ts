/**
 * Settles as `work` does, or rejects with `makeError()` after `timeoutMs`. `work` itself continues; its outcome is then
 * ignored. The timer keeps no process alive. Unlike `Promise.race`, leaves nothing attached to a promise that stays
 * pending.
 */
export function withTimeout<Value>(
  work: Promise<Value>,
  timeoutMs: number,
  makeError: () => Error,
): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(makeError()), timeoutMs)
    timer.unref()
    work.finally(() => clearTimeout(timer)).then(resolve, reject)
  })
}

/** Whether `work` settles within `timeoutMs`. Never rejects. */
export function settledWithin(work: Promise<unknown>, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), timeoutMs)
    timer.unref()
    const settled = () => {
      clearTimeout(timer)
      resolve(true)
    }
    work.then(settled, settled)
  })
}
