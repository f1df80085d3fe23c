import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { OUTPUT_LEAST_BYTES_PER_SECOND, OUTPUT_MOST_BYTES_PER_SECOND, OUTPUT_TURN_BYTES } from './limits.ts'
import { OutputThrottle } from './output-throttle.ts'

let now = 0
beforeEach(() => {
  now = 1_000
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** Timers come `lateMs` after they are due. */
async function pass(ms: number, lateMs = 0): Promise<void> {
  for (let step = 0; step < ms; step += 5) {
    now += 5 + lateMs
    await vi.advanceTimersByTimeAsync(5)
    // Rounds of one tick.
    for (let round = 0; round < 12; round += 1) await new Promise(setImmediate)
  }
}

/** A run that says pieces of one size without end; counts what it could say. */
function talk(throttle: OutputThrottle, pieceBytes: number): { bytes: number } {
  const said = { bytes: 0 }
  const say = async () => {
    for (;;) {
      await (throttle.spend(pieceBytes) ?? Promise.resolve())
      said.bytes += pieceBytes
    }
  }
  void say()
  return said
}

test('a little output does not wait', () => {
  expect(new OutputThrottle(() => now).spend(10_000)).toBeUndefined()
})

test('all together say no more than the bound, and each as much as the others', async () => {
  const throttle = new OutputThrottle(() => now)
  const small = talk(throttle, OUTPUT_TURN_BYTES)
  const large = talk(throttle, 24 * OUTPUT_TURN_BYTES)
  await pass(1_000)
  expect(small.bytes + large.bytes).toBeLessThan(OUTPUT_MOST_BYTES_PER_SECOND * 1.1)
  expect(small.bytes + large.bytes).toBeGreaterThan(OUTPUT_MOST_BYTES_PER_SECOND * 0.5)
  expect(large.bytes / small.bytes).toBeGreaterThan(0.7)
  expect(large.bytes / small.bytes).toBeLessThan(1.4)
})

test('there is less to say when the event loop is late, never nothing, and more again when it is not', async () => {
  const throttle = new OutputThrottle(() => now)
  const said = talk(throttle, OUTPUT_TURN_BYTES)
  await pass(200, 20)
  expect(throttle.bytesPerSecond).toBe(OUTPUT_LEAST_BYTES_PER_SECOND)
  const before = said.bytes
  await pass(1_000, 20)
  expect(said.bytes).toBeGreaterThan(before)
  await pass(2_000)
  expect(throttle.bytesPerSecond).toBe(OUTPUT_MOST_BYTES_PER_SECOND)
})
