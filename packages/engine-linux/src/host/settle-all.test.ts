import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { fulfilled, settleAll } from './settle-all.ts'

it('settleAll does everything, never more at once than allowed, and answers in order', async () => {
  let running = 0
  let most = 0
  const work = [30, 1, 20, 5, 1].map((ms, index) => async () => {
    most = Math.max(most, ++running)
    await sleep(ms)
    running -= 1
    return index
  })
  const results = await settleAll(work, 2)
  expect(results.flatMap(fulfilled)).toEqual([0, 1, 2, 3, 4])
  expect(most).toBe(2)
})

it('settleAll goes on when one fails', async () => {
  const work = [async () => 1, async () => Promise.reject(new Error('second')), async () => 3]
  const results = await settleAll(work, 1)
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})
