import { beforeEach } from 'vitest'

/** For tests that leave what a second try would stumble over: it is put in order before that, and not otherwise. */
export function beforeSecondTry(putInOrder: () => Promise<unknown>): void {
  beforeEach(async ({ task }) => {
    const { retryCount = 0, repeatCount = 0 } = task.result ?? {}
    if (retryCount + repeatCount > 0) await putInOrder()
  })
}
