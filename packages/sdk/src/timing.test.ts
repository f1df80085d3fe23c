import { describe, expect, test } from 'vitest'
import { eachWithinTime, sleep, unlessAborted, withinTime } from './timing.ts'

const never = new Promise<never>(() => {})

describe('withinTime', () => {
  test('returns what ends in time, and throws what fails in time', async () => {
    expect(await withinTime({ timeoutMs: 10_000 }, async () => 1)).toBe(1)
    const failure = new Error('own')
    await expect(
      withinTime({ timeoutMs: 10_000 }, async () => {
        throw failure
      }),
    ).rejects.toBe(failure)
  })

  test('throws `timed_out` when the time has passed', async () => {
    await expect(withinTime({ timeoutMs: 5 }, (signal) => sleep(10_000, signal))).rejects.toMatchObject({
      code: 'timed_out',
      message: expect.stringContaining('5 ms'),
    })
  })

  test('throws `cancelled` when the caller aborts, `timed_out` for a signal that is a time-out', async () => {
    const controller = new AbortController()
    const waiting = withinTime({ signal: controller.signal, timeoutMs: 10_000 }, (signal) =>
      unlessAborted(never, signal),
    )
    controller.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'cancelled' })
    const late = withinTime({ signal: AbortSignal.timeout(5) }, (signal) => unlessAborted(never, signal))
    await expect(late).rejects.toMatchObject({ code: 'timed_out', cause: { name: 'TimeoutError' } })
  })

  test.each([-1, Number.NaN, '5'])('refuses %s as a time', async (timeoutMs) => {
    const wrong = timeoutMs as number
    await expect(withinTime({ timeoutMs: wrong }, async () => 1)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('timeoutMs'),
    })
  })
})

test('a stream has one time for all of it', async () => {
  async function* count(signal: AbortSignal | undefined) {
    for (let index = 0; ; index += 1) {
      await sleep(2, signal)
      yield index
    }
  }
  const seen: number[] = []
  const reading = (async () => {
    for await (const item of eachWithinTime({ timeoutMs: 60 }, count)) seen.push(item)
  })()
  await expect(reading).rejects.toMatchObject({ code: 'timed_out' })
  expect(seen.length).toBeGreaterThan(0)
})
