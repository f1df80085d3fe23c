import { afterAll, beforeAll, vi } from 'vitest'
import { hostClock } from '../../packages/server/src/clock/clock.ts'

export interface HostTime {
  /** Lets time pass at once for every server of this process, by all of its clocks. */
  skip(ms: number): void
  /** Milliseconds since the epoch, as the servers see them. */
  now(): number
}

/** The clocks of the host for the tests of a file, which need not wait for hours to pass. */
export function useHostTime(): HostTime {
  let skippedMs = 0
  const spies: { mockRestore(): void }[] = []
  beforeAll(() => {
    for (const name of ['wallMs', 'monotonicMs', 'bootMs'] as const) {
      const real = hostClock[name]
      spies.push(vi.spyOn(hostClock, name).mockImplementation(() => real() + skippedMs))
    }
  })
  afterAll(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return {
    now: () => hostClock.wallMs(),
    skip(ms) {
      skippedMs += ms
    },
  }
}
