import type { LedgerEntry, Sandbox } from 'dormouse'
import { formatBytes, formatDistance, formatMs } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

const LAST_ENTRIES = 10

type Why = Awaited<ReturnType<Sandbox['why']>>

export async function why(call: Call, ref: string): Promise<void> {
  const { signal } = call
  const sandbox = await call.sandbox(ref)
  const [reasons, ledger] = await Promise.all([sandbox.why({ signal }), sandbox.ledger({ signal }).all()])
  const now = Date.now()
  const ahead = (time: string | undefined) =>
    time === undefined ? undefined : `in ${formatDistance(now, Date.parse(time))} unless it is used`
  const fields = formatFields([
    ['sleeps', ahead(reasons.sleepsAt)],
    ['stored on disk', ahead(reasons.storesAt)],
    ['woken by a timer', ahead(reasons.wakesAt)],
    ['deleted', ahead(reasons.expiresAt)],
    ['cannot sleep', reasons.cannotSleep?.reason],
    ['checkpoint', checkpointText(reasons.checkpoint, now)],
    ['memory', reasons.memory?.event],
    ['copied at a sleep', copiedText(reasons.copied)],
    ['damaged', reasons.damage?.reason],
    ['roll back to', reasons.damage?.rollbackTo],
  ])
  const work = reasons.work.map(
    ({ kind, what, since }) => `  ${kind}: ${what}, for ${formatDistance(Date.parse(since), now)}\n`,
  )
  const last = ledger.slice(-LAST_ENTRIES)
  call.printResult(
    { ...reasons, ledger: last },
    `${reasons.summary}\n${work.join('')}${fields}\n${formatLedger(last, now)}`,
  )
}

function checkpointText(checkpoint: Why['checkpoint'], now: number): string | undefined {
  if (checkpoint === undefined) return undefined
  const { lastAt, pauseMs, nextAt, refused } = checkpoint
  const parts = [
    lastAt && `${formatDistance(Date.parse(lastAt), now)} ago, which took ${formatMs(pauseMs ?? 0)}`,
    refused && `refused: ${refused}`,
    nextAt && `next in ${formatDistance(now, Date.parse(nextAt))}`,
  ]
  return parts.filter(Boolean).join('; ') || undefined
}

/** Programs without the guard. */
export function copiedText(
  copied: readonly { readonly program: string; readonly bytes: number }[] | undefined,
): string | undefined {
  return copied?.map(({ program, bytes }) => `${program} (${formatBytes(bytes)})`).join(', ')
}

function formatLedger(entries: readonly LedgerEntry[], now: number): string {
  return formatTable([
    ['WHEN', 'EVENT', 'TIER', 'CAUSE', 'TOOK', 'SIZE', ''],
    ...entries.map(({ at, event, tier, cause, latencyMs, bytes, detail }) => [
      `${formatDistance(Date.parse(at), now)} ago`,
      event,
      tier ?? '-',
      cause,
      latencyMs === undefined ? '-' : formatMs(latencyMs),
      bytes === undefined ? '-' : formatBytes(bytes),
      detail ?? '',
    ]),
  ])
}
