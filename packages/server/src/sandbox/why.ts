import type { WhyAnswer } from '@dormouse/contracts/http'
import type { CopiedProgram } from '@dormouse/engine'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { capitalised, howToRaise } from './memory-words.ts'
import { isPaused, pausedText } from './paused.ts'
import type { Sandbox } from './sandbox.ts'
import { untilTimerWake } from './timer-wakes.ts'

/** Why a sandbox is awake, or when it will sleep, in words and data. */
export function explainWhy(sandbox: Sandbox, copied: readonly CopiedProgram[] = []): WhyAnswer {
  const { row, work, refusal, deps } = sandbox
  const { clock } = deps
  const entries = row.state === 'running' ? work.list() : []
  const sleepsInMs = untilSleep(sandbox)
  const storesInMs = untilStored(sandbox)
  const inTime = (ms: number | undefined) =>
    ms === undefined ? undefined : new Date(Math.round(clock.wallMs() + ms)).toISOString()
  const memory = memoryOf(sandbox)
  return {
    state: row.state,
    tier: row.tier,
    summary: [
      summarise(sandbox, { sleepsInMs, storesInMs }),
      expiryText(sandbox),
      memory?.message,
      copiedText(copied),
      deps.network.lossOf(sandbox.id),
    ]
      .filter(Boolean)
      .join(' '),
    work: entries,
    sleepsAt: inTime(sleepsInMs),
    storesAt: inTime(storesInMs),
    expiresAt: inTime(untilExpiry(sandbox)),
    wakesAt: inTime(untilTimerWake(sandbox)),
    cannotSleep:
      refusal === undefined
        ? undefined
        : {
            reason: refusal.reason,
            retryAt: new Date(clock.wallMs() + refusal.retryAtMs - clock.monotonicMs()).toISOString(),
          },
    checkpoint: sandbox.checkpoints.view(),
    memory,
    copied: copied.length === 0 ? undefined : copied,
    damage: deps.quarantine.damageOf(row),
  }
}

/** Small programs cost nothing that anyone notices. */
const COPIED_WORTH_SAYING_BYTES = 8 * 1024 ** 2

function copiedText(copied: readonly CopiedProgram[]): string | undefined {
  const large = copied.filter(({ bytes }) => bytes >= COPIED_WORTH_SAYING_BYTES)
  if (large.length === 0) return undefined
  const which = large.map(({ program, bytes }) => `${program} (${Math.round(bytes / 1024 ** 2)} MiB)`)
  return `Runs without the guard, so its memory is copied at every sleep and wake: ${which.join(', ')}.`
}

function memoryOf({ memory, row }: Sandbox): WhyAnswer['memory'] {
  if (isPaused(row)) {
    const limitBytes = row.pausedAtBytes ?? 0
    const message = `${capitalised(pausedText(row))}. ${howToRaise(row)}`
    const at = new Date(row.stateSince).toISOString()
    return { event: 'paused', at, limitBytes, peakBytes: limitBytes, message }
  }
  if (memory.notice === undefined) return undefined
  const { atMs, ...notice } = memory.notice
  return { ...notice, at: new Date(atMs).toISOString() }
}

/** Milliseconds until it sleeps if nothing happens. Undefined: it does not sleep by itself. */
export function untilSleep({ row, work, refusal, deps }: Sandbox): number | undefined {
  if (row.state !== 'running' || row.idleTimeoutMs === 0 || work.isBusy) return undefined
  const retryInMs =
    refusal === undefined ? Number.NEGATIVE_INFINITY : refusal.retryAtMs - deps.clock.monotonicMs()
  return Math.max(row.idleTimeoutMs - work.idleMs, retryInMs)
}

/** Milliseconds until a frozen sandbox is on disk only. */
export function untilStored({ row, stateMs }: Sandbox): number | undefined {
  return row.tier === 'frozen' ? row.storeAfterMs - stateMs : undefined
}

/** An ephemeral sandbox that its caller never closes is deleted after this time without use. */
const EPHEMERAL_IDLE_MS = 3_600_000

/** Milliseconds until it is deleted. An expiry at a time of day waits until the wall clock is confirmed. */
export function untilExpiry({ row, work, ageMs, deps }: Sandbox): number | undefined {
  const expires: SandboxRow['expires'] =
    row.expires ?? (row.ephemeral ? { idleMs: EPHEMERAL_IDLE_MS, action: 'delete' } : undefined)
  if (expires === undefined) return undefined
  const times = [
    expires.afterMs === undefined ? undefined : expires.afterMs - ageMs,
    // A sleeping sandbox is idle, too.
    expires.idleMs === undefined ? undefined : expires.idleMs - work.idleMs,
    expires.at === undefined ? undefined : Date.parse(expires.at) - deps.clock.confirmedWallMs(),
  ].filter((time) => time !== undefined)
  return times.length === 0 ? undefined : Math.min(...times)
}

/** Only of expiries at a time of day: the others move with every use. */
function expiryText(sandbox: Sandbox): string | undefined {
  const { expires, state } = sandbox.row
  const leftMs = untilExpiry(sandbox)
  if (expires?.at === undefined || leftMs === undefined || state === 'deleting') return undefined
  const what = expires.action === 'standby' ? 'It is put to standby' : 'It is deleted'
  return `${what} in ${inWords(leftMs)}, when its time is over.`
}

interface Times {
  readonly sleepsInMs: number | undefined
  readonly storesInMs: number | undefined
}

function summarise(sandbox: Sandbox, { sleepsInMs, storesInMs }: Times): string {
  const { row, work, refusal, deps } = sandbox
  if (row.state === 'standby') {
    const damage = deps.quarantine.damageOf(row)
    if (damage !== undefined) return `Asleep, and cannot be woken: ${damage.reason}.${whereTo(damage)}`
    const where =
      storesInMs === undefined
        ? 'Asleep, on disk only'
        : `Asleep in memory; on disk only in ${inWords(storesInMs)}`
    const wakesInMs = untilTimerWake(sandbox)
    const timer = wakesInMs === undefined ? undefined : `A timer wakes it in ${inWords(wakesInMs)}.`
    return [`${where}.`, timer, connectionsText(sandbox)].filter(Boolean).join(' ')
  }
  if (row.state !== 'running') return `It is ${row.state}.`
  if (work.isBusy) {
    const what = work.list().map((entry) => entry.what)
    return `Awake because of ${[...new Set(what)].join(', ')}.`
  }
  if (sleepsInMs === undefined) return 'Awake: its policy says that it never sleeps by itself.'
  if (refusal !== undefined)
    return `Nothing is going on, but it cannot be saved: ${refusal.reason} Next attempt in ${inWords(sleepsInMs)}.`
  return `Nothing is going on; it sleeps in ${inWords(sleepsInMs)}.`
}

/** Only while there are some. */
function connectionsText({ id, row, deps }: Sandbox): string | undefined {
  const parked = deps.network.parkedOf(id)
  if (parked === undefined) return undefined
  const what = parked.count === 1 ? 'A connection is' : `${parked.count} connections are`
  const wakes = row.connections.wakeOnData ? '; data that arrives wakes it' : ''
  return `${what} kept for ${inWords(parked.leftMs)}${wakes}.`
}

function whereTo({ rollbackTo }: NonNullable<WhyAnswer['damage']>): string {
  return rollbackTo === undefined ? '' : ` Roll back to ${rollbackTo}, which is not known to be damaged.`
}

/** In the largest unit of which there are at least two. */
function inWords(ms: number): string {
  const minutes = ms / 60_000
  if (minutes >= 48 * 60) return `${Math.round(minutes / 60 / 24)} days`
  if (minutes >= 120) return `${Math.round(minutes / 60)} h`
  return minutes >= 2 ? `${Math.round(minutes)} min` : `${(Math.max(0, ms) / 1000).toFixed(1)} s`
}
