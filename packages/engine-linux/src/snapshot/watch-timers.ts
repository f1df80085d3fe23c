import { setImmediate } from 'node:timers/promises'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { Countdown } from '../image/countdown.ts'
import { type HeldSleep, holdSleep } from '../process/hold-sleep.ts'
import {
  type ClocksInside,
  findPendingWaits,
  type PendingWait,
  readClockOffsets,
} from '../process/pending-waits.ts'

/** A wait or an interval that is shorter than this is polling: nothing is due, and it would only begin again. */
const POLL_MS = 2_000
/** Each takes up to 2 ms while the sandbox is frozen. The threads of other waits are interrupted. */
const MAX_HELD = 200
const NS_PER_MS = 1_000_000n

/** What the threads of a burrow wait for when it is saved. */
export interface FoundWaits {
  readonly waits: readonly PendingWait[]
  readonly clocks: ClocksInside
  /** The host's monotonic clock, and its wall clock, when they were found. */
  readonly foundNs: bigint
  readonly foundAtMs: number
}

/** Pre: the burrow is not frozen yet. */
export async function findWaits(burrow: LinuxBurrow): Promise<FoundWaits> {
  const pids = await burrow.pids()
  const clocks = readClockOffsets(burrow.first.pid)
  const foundNs = process.hrtime.bigint()
  const foundAtMs = Date.now()
  return { waits: await findPendingWaits(pids, clocks), clocks, foundNs, foundAtMs }
}

/** Keeps sleeping threads from sleeping for the whole time again after a restore. Pre: the burrow is frozen. */
export async function holdSleeps({ waits, clocks, foundNs }: FoundWaits): Promise<HeldSleep[]> {
  const held: HeldSleep[] = []
  for (const wait of waits.slice(0, MAX_HELD)) {
    const one = holdSleep(wait, { clocks, foundNs })
    if (one !== undefined) held.push(one)
    await setImmediate()
  }
  return held
}

/**
 * The time of the wall clock at which the clocks inside showed `monotonicNs`. A dump takes a while, and CRIU reads the
 * clocks during it.
 */
export function wallTimeOf(
  { monotonicNs }: { monotonicNs: bigint },
  { clocks, foundNs, foundAtMs }: FoundWaits,
) {
  const atMs = foundAtMs + toMs(monotonicNs - clocks.monotonicOffsetNs - foundNs)
  return Math.round(Math.min(Date.now(), Math.max(foundAtMs, atMs)))
}

/** When the earliest wait or timer ends, by the wall clock. `timers` were read at `readAtMs`. */
export function earliestDeadline(
  { waits, foundAtMs }: FoundWaits,
  { timers, readAtMs }: { timers: readonly Countdown[]; readAtMs: number },
): Date | undefined {
  const times = [
    ...waits
      .filter(({ leftNs, waitedMs }) => toMs(leftNs) + waitedMs >= POLL_MS)
      .map(({ leftNs }) => foundAtMs + Math.max(0, toMs(leftNs))),
    ...timers
      .filter(({ intervalNs }) => intervalNs === 0n || toMs(intervalNs) >= POLL_MS)
      .map(({ leftNs }) => readAtMs + toMs(leftNs)),
  ]
  const earliest = Math.min(...times)
  // A time-out of thousands of years is how some programs say "never".
  return earliest <= LATEST_MS ? new Date(Math.round(earliest)) : undefined
}

/** The last moment that a date with four digits of the year can show. */
const LATEST_MS = Date.UTC(9999, 11, 31)

function toMs(ns: bigint): number {
  return Number(ns / NS_PER_MS)
}
