import type { LedgerEntry, Run, Snapshot } from 'dormouse'
import { Sandbox } from 'dormouse'
import { client } from '../client.ts'
import { confirmed } from '../parts/confirm.tsx'
import { useRead } from '../parts/use-read.ts'
import { navigate } from '../router.tsx'
import { titleOf } from '../sandbox/actions.ts'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun } from '../state/session.ts'
import { attempt, tell } from '../state/toasts.ts'
import { bytes, clock, duration } from '../words.ts'

type Moment =
  | { readonly kind: 'entry'; readonly at: string; readonly entry: LedgerEntry }
  | { readonly kind: 'run'; readonly at: string; readonly run: Run }
  | { readonly kind: 'snapshot'; readonly at: string; readonly snapshot: Snapshot }

const LEDGER_MAX = 1000
const RUNS_MAX = 200

const WORDS: Partial<Record<LedgerEntry['event'], string>> = {
  created: 'Created',
  slept: 'Fell asleep',
  stored: 'Left memory, on disk only',
  woke: 'Woke',
  forked: 'Forked',
  snapshot: 'Snapshot',
  rolled_back: 'Rolled back',
  adopted: 'Adopted by a new server',
  lost: 'Processes died',
  refused: 'Could not be saved',
  failed: 'Failed',
  changed: 'Changed',
  denied: 'Network refused',
  disconnected: 'Lost connections',
  damaged: 'Damaged',
  memory_high: 'Near its memory limit',
  out_of_memory: 'Out of memory',
}

/** Everything that happened, newest first, with its cause and how long it took. Reads records only. */
export function TimelinePart({ sandbox, info }: PartProps) {
  const { value, problem } = useRead(
    async (signal) => {
      const [entries, runs, snapshots] = await Promise.all([
        sandbox.ledger({ signal }).all(),
        sandbox.runs.list({ signal }).page({ limit: RUNS_MAX }),
        client.snapshots.list({ sandboxId: sandbox.id, signal }).page({ limit: RUNS_MAX }),
      ])
      return momentsOf(entries.slice(-LEDGER_MAX), runs.items, snapshots.items)
    },
    sandbox,
    ({ sandboxId, type }) =>
      sandboxId === sandbox.id && (type === 'sandbox.ledger' || type === 'run.finished'),
  )
  if (problem !== undefined) return <p class="problem">{problem}</p>
  return (
    <ol class="timeline" aria-label="Timeline">
      {(value ?? []).map((moment) => (
        <li key={`${moment.kind}-${moment.at}-${keyOf(moment)}`} class={lookOf(moment)}>
          <time dateTime={moment.at}>{clock(moment.at)}</time>
          <span class="mark-dot" aria-hidden="true" />
          <Words moment={moment} />
          {moment.kind === 'snapshot' && mayRun() && (
            <SnapshotActions {...{ sandbox, info }} snapshot={moment.snapshot} />
          )}
        </li>
      ))}
    </ol>
  )
}

function momentsOf(
  entries: readonly LedgerEntry[],
  runs: readonly Run[],
  snapshots: readonly Snapshot[],
): Moment[] {
  const moments: Moment[] = [
    ...entries.map((entry) => ({ kind: 'entry' as const, at: entry.at, entry })),
    ...runs.map((run) => ({ kind: 'run' as const, at: run.startedAt, run })),
    ...snapshots.map((snapshot) => ({ kind: 'snapshot' as const, at: snapshot.createdAt, snapshot })),
  ]
  return moments.sort((one, other) => Date.parse(other.at) - Date.parse(one.at))
}

function keyOf(moment: Moment): string {
  if (moment.kind === 'entry') return String(moment.entry.seq)
  return moment.kind === 'run' ? moment.run.runId : moment.snapshot.id
}

function lookOf(moment: Moment): string {
  if (moment.kind !== 'entry') return moment.kind
  const { event, tier } = moment.entry
  if (event === 'slept') return tier ?? 'stored'
  if (event === 'woke' || event === 'created') return 'running'
  if (event === 'stored') return 'stored'
  return /lost|failed|damaged|out_of_memory|refused|denied/.test(event) ? 'failed' : 'other'
}

function Words({ moment }: { moment: Moment }) {
  if (moment.kind === 'run') {
    const { run } = moment
    return (
      <span>
        Run <code>{run.code?.trim().split('\n')[0]?.slice(0, 80) ?? run.runId}</code>
        <small>
          {run.exitCode === undefined ? run.state : run.exitCode === 0 ? 'done' : `exit ${run.exitCode}`}
        </small>
      </span>
    )
  }
  if (moment.kind === 'snapshot') {
    const { name, id, bytes: size, isHead } = moment.snapshot
    return (
      <span>
        Snapshot <strong>{name ?? id}</strong>
        <small>
          {bytes(size.memory + size.images)}
          {isHead ? ' · wakes from it' : ''}
        </small>
      </span>
    )
  }
  const { event, cause, tier, latencyMs, bytes: size, detail } = moment.entry
  return (
    <span>
      {WORDS[event] ?? event}
      {event === 'woke' && tier !== undefined && ` from ${tier}`}
      {event === 'slept' && tier !== undefined && `, ${tier}`}
      <small>
        {[cause, latencyMs !== undefined && duration(latencyMs), size !== undefined && bytes(size), detail]
          .filter(Boolean)
          .join(' · ')}
      </small>
    </span>
  )
}

function SnapshotActions({ sandbox, info, snapshot }: PartProps & { snapshot: Snapshot }) {
  const rollBack = async () => {
    const text = 'What it did since then is discarded, unless another snapshot has it.'
    if (!(await confirmed(`Roll ${titleOf(info)} back?`, text, 'Roll back'))) return
    await attempt('Roll back', async () => {
      await sandbox.rollback(snapshot.id)
      tell(`Rolled ${titleOf(info)} back to ${snapshot.name ?? snapshot.id}`)
    })
  }
  const branch = () =>
    attempt('Branch', async () => {
      const made = await Sandbox.create({ snapshot: snapshot.id }, { client })
      navigate(`/sandboxes/${made.id}`)
    })
  return (
    <span class="row-actions">
      <button type="button" onClick={() => void rollBack()}>
        Roll back
      </button>
      <button type="button" onClick={() => void branch()}>
        Branch
      </button>
    </span>
  )
}
