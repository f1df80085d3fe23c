import type { WhyAnswer } from '@dormouse/contracts/http'
import type { SandboxDamage } from '../scrub/quarantine.ts'
import type { SandboxBody } from './sandbox-body.ts'

/** What keeps it awake, or when it will sleep, in words and data. */
export function explainWhy(body: SandboxBody): WhyAnswer {
  const { row, work, refusal, parts } = body
  const { clock } = parts
  const entries = row.state === 'running' ? work.list() : []
  const sleepsInMs = untilSleep(body)
  const storesInMs = untilStored(body)
  const inTime = (ms: number | undefined) =>
    ms === undefined ? undefined : new Date(clock.wallMs() + ms).toISOString()
  return {
    state: row.state,
    tier: row.tier,
    summary: summarise(body, { sleepsInMs, storesInMs }),
    work: entries,
    sleepsAt: inTime(sleepsInMs),
    storesAt: inTime(storesInMs),
    expiresAt: inTime(untilExpiry(body)),
    cannotSleep:
      refusal === undefined
        ? undefined
        : {
            reason: refusal.reason,
            retryAt: new Date(clock.wallMs() + refusal.retryAtMs - clock.monotonicMs()).toISOString(),
          },
    damage: parts.quarantine.damageOf(row),
  }
}

/** Milliseconds; undefined: not by itself, as things are. */
export function untilSleep({ row, work, refusal, parts }: SandboxBody): number | undefined {
  if (row.state !== 'running' || row.idleTimeoutMs === 0 || work.isBusy) return undefined
  const retryInMs =
    refusal === undefined ? Number.NEGATIVE_INFINITY : refusal.retryAtMs - parts.clock.monotonicMs()
  return Math.max(row.idleTimeoutMs - work.idleMs, retryInMs)
}

/** Milliseconds until what is frozen is on disk only. */
export function untilStored({ row, stateMs }: SandboxBody): number | undefined {
  return row.tier === 'frozen' ? row.storeAfterMs - stateMs : undefined
}

/** Milliseconds. What was asked for by the clock on the wall waits for that to be confirmed. */
export function untilExpiry({ row, work, ageMs, parts }: SandboxBody): number | undefined {
  const { expires } = row
  if (expires === undefined) return undefined
  const times = [
    expires.afterMs === undefined ? undefined : expires.afterMs - ageMs,
    // Idle time goes on in standby: asleep is as idle as can be.
    expires.idleMs === undefined ? undefined : expires.idleMs - work.idleMs,
    expires.at === undefined ? undefined : Date.parse(expires.at) - parts.clock.confirmedWallMs(),
  ].filter((time) => time !== undefined)
  return times.length === 0 ? undefined : Math.min(...times)
}

interface Times {
  readonly sleepsInMs: number | undefined
  readonly storesInMs: number | undefined
}

function summarise(body: SandboxBody, { sleepsInMs, storesInMs }: Times): string {
  const { row, work, refusal, parts } = body
  if (row.state === 'standby') {
    const damage = parts.quarantine.damageOf(row)
    if (damage !== undefined) return `Asleep, and cannot be woken: ${damage.reason}.${whereTo(damage)}`
    if (storesInMs === undefined) return 'Asleep, on disk only.'
    return `Asleep in memory; on disk only in ${inWords(storesInMs)}.`
  }
  if (row.state !== 'running') return `It is ${row.state}.`
  if (work.isBusy) {
    const what = work.list().map((entry) => entry.what)
    return `Awake because of ${[...new Set(what)].join(', ')}.`
  }
  if (sleepsInMs === undefined) return 'Awake: its policy says that it never sleeps by itself.'
  if (refusal !== undefined)
    return `Nothing is going on, but it cannot be saved: ${refusal.reason} Next attempt in ${inWords(sleepsInMs)}.`
  return `Nothing is going on; it ${row.ephemeral ? 'is deleted' : 'sleeps'} in ${inWords(sleepsInMs)}.`
}

function whereTo({ rollbackTo }: SandboxDamage): string {
  return rollbackTo === undefined ? '' : ` Roll back to ${rollbackTo}, which is not known to be damaged.`
}

/** Of the largest unit of which there are two. */
function inWords(ms: number): string {
  const minutes = ms / 60_000
  if (minutes >= 48 * 60) return `${Math.round(minutes / 60 / 24)} days`
  if (minutes >= 120) return `${Math.round(minutes / 60)} h`
  return minutes >= 2 ? `${Math.round(minutes)} min` : `${(Math.max(0, ms) / 1000).toFixed(1)} s`
}
