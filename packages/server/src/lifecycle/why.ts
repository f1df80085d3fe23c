import type { SandboxBody } from './sandbox-body.ts'
import type { Why } from './service.ts'

/** What keeps it awake, or when it will sleep, in words and data. */
export function explainWhy(body: SandboxBody): Why {
  const { row, work, refusal, parts } = body
  const now = parts.now()
  const entries = row.state === 'running' ? work.list() : []
  const sleepsAt = whenItSleeps(body)
  const storesAt = row.tier === 'frozen' ? row.stateSince + row.storeAfterMs : undefined
  return {
    state: row.state,
    tier: row.tier,
    summary: summarise(body, { now, sleepsAt, storesAt }),
    work: entries,
    sleepsAt: isoTime(sleepsAt),
    storesAt: isoTime(storesAt),
    expiresAt: isoTime(whenItExpires(body)),
    cannotSleep:
      refusal === undefined
        ? undefined
        : { reason: refusal.reason, retryAt: new Date(refusal.retryAt).toISOString() },
  }
}

/** Undefined: not by itself, as things are. */
export function whenItSleeps({ row, work, refusal }: SandboxBody): number | undefined {
  if (row.state !== 'running' || row.idleTimeoutMs === 0 || work.isBusy) return undefined
  return Math.max(work.lastActiveAt + row.idleTimeoutMs, refusal?.retryAt ?? 0)
}

export function whenItExpires({ row, work }: SandboxBody): number | undefined {
  const { expires } = row
  if (expires === undefined) return undefined
  const times = [
    expires.afterMs === undefined ? undefined : row.createdAt + expires.afterMs,
    // Idle time goes on in standby: asleep is as idle as can be.
    expires.idleMs === undefined ? undefined : work.lastActiveAt + expires.idleMs,
    expires.at === undefined ? undefined : Date.parse(expires.at),
  ].filter((time) => time !== undefined)
  return times.length === 0 ? undefined : Math.min(...times)
}

interface Times {
  readonly now: number
  readonly sleepsAt: number | undefined
  readonly storesAt: number | undefined
}

function summarise({ row, work, refusal }: SandboxBody, { now, sleepsAt, storesAt }: Times): string {
  if (row.state === 'standby') {
    if (storesAt === undefined) return 'Asleep, on disk only.'
    return `Asleep in memory; on disk only in ${inWords(storesAt - now)}.`
  }
  if (row.state !== 'running') return `It is ${row.state}.`
  if (work.isBusy) {
    const what = work.list().map((entry) => entry.what)
    return `Awake because of ${[...new Set(what)].join(', ')}.`
  }
  if (sleepsAt === undefined) return 'Awake: its policy says that it never sleeps by itself.'
  if (refusal !== undefined)
    return `Nothing is going on, but it cannot be saved: ${refusal.reason} Next attempt in ${inWords(sleepsAt - now)}.`
  return `Nothing is going on; it ${row.ephemeral ? 'is deleted' : 'sleeps'} in ${inWords(sleepsAt - now)}.`
}

/** Of the largest unit of which there are two. */
function inWords(ms: number): string {
  const minutes = ms / 60_000
  if (minutes >= 48 * 60) return `${Math.round(minutes / 60 / 24)} days`
  if (minutes >= 120) return `${Math.round(minutes / 60)} h`
  return minutes >= 2 ? `${Math.round(minutes)} min` : `${(Math.max(0, ms) / 1000).toFixed(1)} s`
}

function isoTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString()
}
