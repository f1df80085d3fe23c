import { EventEmitter, once } from 'node:events'
import { afterAll, beforeAll, vi } from 'vitest'
import { hostClock } from '../../packages/server/src/clock/clock.ts'

export interface HostTime {
  /** Lets time pass at once for every server of this process, by all of its clocks. */
  skip(ms: number): void
  /** Resolves when the servers of this process have checked all their sandboxes at least once from now on. */
  checked(): Promise<void>
  /** Milliseconds since the epoch, as the servers see them. */
  now(): number
}

/** The clocks of the host for the tests of a file, which need not wait for hours to pass. */
export function useHostTime(): HostTime {
  let skippedMs = 0
  /** A round of the idle watch begins with a look at this clock, and the next round begins when it has ended. */
  const rounds = new EventEmitter()
  const spies: { mockRestore(): void }[] = []
  beforeAll(() => {
    for (const name of ['wallMs', 'monotonicMs', 'bootMs'] as const) {
      const real = hostClock[name]
      const read = () => {
        if (name === 'bootMs') rounds.emit('round')
        return real() + skippedMs
      }
      spies.push(vi.spyOn(hostClock, name).mockImplementation(read))
    }
  })
  afterAll(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return {
    now: () => hostClock.wallMs(),
    async checked() {
      await once(rounds, 'round')
      await once(rounds, 'round')
    },
    skip(ms) {
      skippedMs += ms
    },
  }
}
