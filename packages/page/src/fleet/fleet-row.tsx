import type { SandboxInfo } from 'dormouse'
import { DayStrip } from '../parts/day-strip.tsx'
import { lookOf, StateBadge } from '../parts/state-badge.tsx'
import { Link } from '../router.tsx'
import { titleOf } from '../sandbox/actions.ts'
import { activityOf, transitions } from '../state/fleet.ts'
import { ago, bytes, duration } from '../words.ts'

interface FleetRowProps {
  readonly info: SandboxInfo
  readonly index: number
  readonly isCursor: boolean
  readonly isSelected: boolean
  readonly onSelect: () => void
}

const FLASH_MS = 2500

export function FleetRow({ info, index, isCursor, isSelected, onSelect }: FleetRowProps) {
  const activity = activityOf(info.id)
  const look = lookOf(info)
  const moved = transitions.value.get(info.id)
  const isFresh = moved !== undefined && Date.now() - moved.atMs < FLASH_MS
  const classes = [
    'row',
    look,
    isCursor && 'cursor',
    isSelected && 'selected',
    isFresh && `just-${moved.event}`,
  ]
  return (
    <div
      class={classes.filter(Boolean).join(' ')}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={isSelected}
    >
      <span role="cell" class="pick">
        <input
          type="checkbox"
          checked={isSelected}
          onChange={onSelect}
          aria-label={`Select ${titleOf(info)}`}
        />
      </span>
      <span role="cell">
        <StateBadge info={info} />
      </span>
      <span role="cell" class="title">
        <Link to={`/sandboxes/${info.id}`}>{titleOf(info)}</Link>
        {info.name !== undefined && <small>{info.id}</small>}
      </span>
      <span role="cell" class="template">
        {info.template}
      </span>
      <span role="cell" class="memory number">
        {bytes(activity?.memoryBytes)}
      </span>
      <span role="cell" class="why" title={activity?.why}>
        {isFresh && moved.event === 'woke' && moved.latencyMs !== undefined ? (
          <span class="woke">woke in {duration(moved.latencyMs)}</span>
        ) : (
          (activity?.why ?? '')
        )}
      </span>
      <span role="cell" class="day">
        <DayStrip day={activity?.day} />
      </span>
      <span role="cell" class="run" title={activity?.lastRun?.code}>
        <LastRun activity={activity} />
      </span>
      <span role="cell" class="number since">
        {ago(info.lastActiveAt)}
      </span>
    </div>
  )
}

function LastRun({ activity }: { activity: ReturnType<typeof activityOf> }) {
  const run = activity?.lastRun
  if (run === undefined) return <span class="none">–</span>
  const outcome = run.state === 'finished' ? (run.exitCode === 0 ? 'good' : 'bad') : run.state
  return <code class={outcome}>{run.code?.trim().split('\n').at(-1) ?? run.runId}</code>
}
