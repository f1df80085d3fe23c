import { expect } from 'vitest'
import type { SshBench } from './ssh-client.ts'

/** Resolves when a program inside writes no more, because nothing reads what it has written. */
export async function untilStalled(bench: SshBench, program: string): Promise<void> {
  let before = ''
  const isStalled = async () => {
    const { stdout } = await bench.exec(`grep wchar /proc/$(pgrep -nx ${program})/io`)
    const [last, now] = [before, stdout.toString()]
    before = now
    return now !== '' && now === last
  }
  await expect.poll(isStalled, { timeout: 20_000, interval: 100 }).toBe(true)
}
