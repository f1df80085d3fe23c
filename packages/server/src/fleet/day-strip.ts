import type { ActivityAnswer } from '@dormouse/contracts/http'
import type { LedgerEntry } from '../store/ledger-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'

type Span = ActivityAnswer['items'][number]['day'][number]
type SpanState = Span['state']

export const DAY_MS = 86_400_000
/** A strip has no room for more. */
const SPANS_MAX = 200

/**
 * When a sandbox was awake and asleep, from the ledger entries of the last day, oldest first. `before` is the last
 * entry before them that changed the state.
 */
export function dayStrip(
  row: Pick<SandboxRow, 'state' | 'tier' | 'createdAt'>,
  entries: readonly Pick<LedgerEntry, 'event' | 'tier' | 'at'>[],
  nowMs: number,
): Span[] {
  const spans: Span[] = []
  let from = Math.max(nowMs - DAY_MS, row.createdAt)
  let state = stateBefore(entries) ?? stateNow(row)
  const close = (to: number) => {
    if (to > from) spans.push({ state, from: iso(from), to: iso(to) })
    from = Math.max(from, to)
  }
  for (const entry of entries) {
    const next = stateAfter(entry)
    if (next === undefined || next === state) continue
    close(Math.min(nowMs, Date.parse(entry.at)))
    state = next
  }
  close(nowMs)
  return spans.slice(-SPANS_MAX)
}

function stateNow({ state, tier }: Pick<SandboxRow, 'state' | 'tier'>): SpanState {
  return state === 'standby' ? (tier ?? 'stored') : 'running'
}

function stateAfter({ event, tier }: Pick<LedgerEntry, 'event' | 'tier'>): SpanState | undefined {
  if (event === 'slept') return tier ?? 'stored'
  if (event === 'stored') return 'stored'
  if (event === 'created' || event === 'woke' || event === 'rolled_back' || event === 'adopted')
    return 'running'
  if (event === 'lost') return 'stored'
  return undefined
}

/** The state before the first entry follows from what that entry did. */
function stateBefore(entries: readonly Pick<LedgerEntry, 'event' | 'tier'>[]): SpanState | undefined {
  for (const { event, tier } of entries) {
    if (event === 'woke') return tier ?? 'stored'
    if (event === 'stored') return 'frozen'
    if (event === 'slept' || event === 'created') return 'running'
  }
  return undefined
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
