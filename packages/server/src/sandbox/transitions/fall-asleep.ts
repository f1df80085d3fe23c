import type { SandboxAnswer } from '@dormouse/contracts/http'
import type { CallWatch } from '../call-watch.ts'
import { inBackground } from '../in-background.ts'
import type { Sandbox } from '../sandbox.ts'
import { type Standby, standby } from './standby.ts'

/** A client that calls all the time interrupts a standby that was asked for at most this often. */
const INTERRUPTIONS_MAX = 3
/**
 * How long the next attempt waits for the calls that interrupted the one before. It stops runs and ends requests that
 * last longer.
 */
const CALLS_END_MS = 5_000

/** Does the standby with the lock held alone, and returns the view after it. An abort keeps the sandbox awake. */
type Sleep = (signal: AbortSignal | undefined) => Promise<SandboxAnswer>

/**
 * Prepares a standby while the sandbox is awake, so that the standby itself is short. The caller does not hold the
 * lock. A call interrupts a standby for being idle, which is then over, and a standby that was asked for, which tries
 * again. Others are not interrupted.
 */
export async function fallAsleep(
  sandbox: Sandbox,
  how: Omit<Standby, 'signal'>,
  exclusive: (work: () => Promise<void>) => Promise<SandboxAnswer>,
): Promise<SandboxAnswer> {
  const sleep: Sleep = (signal) => exclusive(() => standby(sandbox, { ...how, signal }))
  if (how.cause === 'asked') return fallAsleepAsAsked(sandbox, sleep)
  if (how.cause !== 'idle') return sleep(undefined)
  using watch = sandbox.work.watch()
  await prepare(sandbox, watch.signal)
  return await sleep(watch.signal)
}

/** Ends asleep, however many calls come. Those that interrupted it and have not ended wake the sandbox again. */
async function fallAsleepAsAsked(sandbox: Sandbox, sleep: Sleep): Promise<SandboxAnswer> {
  const watches: CallWatch[] = []
  for (let left = INTERRUPTIONS_MAX; ; left -= 1) {
    await prepare(sandbox, undefined)
    using watch = sandbox.work.watch()
    const view = await sleep(left === 0 ? undefined : watch.signal)
    if (view.state === 'standby' || left === 0) {
      if (watches.some(({ isNeeded }) => isNeeded)) wakeAgain(sandbox)
      return view
    }
    watches.push(watch)
    await watch.ended(CALLS_END_MS)
  }
}

/** The standby works without it. Calls are answered meanwhile. */
async function prepare({ row, burrow, deps }: Sandbox, signal: AbortSignal | undefined): Promise<void> {
  if (row.state !== 'running' || burrow === undefined) return
  await deps.engine.prepareSnapshot(burrow, signal).catch((error: unknown) => {
    if (signal?.aborted !== true) deps.log.warn({ sandboxId: row.id, err: error }, 'a standby takes longer')
  })
}

/** As the calls would have done if they had waited for the standby. */
function wakeAgain(sandbox: Sandbox): void {
  const woken = sandbox.wake('run').catch((err: unknown) => {
    sandbox.deps.log.warn({ sandboxId: sandbox.id, err }, 'calls wait for a sandbox that does not wake')
  })
  inBackground(sandbox.deps, woken)
}
