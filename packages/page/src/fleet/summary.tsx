import { overview } from '../state/fleet.ts'
import { bytes, count, duration, money } from '../words.ts'

/** The numbers of all sandboxes. */
export function Summary() {
  const now = overview.value
  const { cost, wakes } = now ?? {}
  const saved = cost === undefined ? 0 : cost.alwaysOn - cost.spent
  return (
    <dl class="summary" aria-label="All sandboxes">
      <Figure name="running" look="running" value={now && count(now.running)} />
      <Figure name="frozen" look="frozen" value={now && count(now.frozen)} />
      <Figure name="stored" look="stored" value={now && count(now.stored)} />
      {now !== undefined && now.failed > 0 && (
        <Figure name="failed" look="failed" value={count(now.failed)} />
      )}
      <Figure name="memory held" value={now && bytes(now.memoryHeldBytes)} />
      <Figure name="memory saved" value={now && bytes(now.memorySavedBytes)} />
      <Figure
        name="saved this month"
        value={cost && money(Math.max(0, saved), cost.currency)}
        note={cost && `${money(cost.spent, cost.currency)} instead of ${money(cost.alwaysOn, cost.currency)}`}
      />
      <Figure
        name="wake p50"
        value={wakes && duration(wakes.p50Ms)}
        note={wakes && `p99 ${duration(wakes.p99Ms)}`}
      />
    </dl>
  )
}

interface FigureProps {
  readonly name: string
  readonly value: string | undefined
  readonly note?: string | undefined
  readonly look?: string
}

function Figure({ name, value, note, look }: FigureProps) {
  return (
    <div class="figure">
      <dt>
        {look !== undefined && (
          <span class={`state ${look}`}>
            <span class="dot" aria-hidden="true" />
          </span>
        )}
        {name}
      </dt>
      <dd>
        {value ?? '…'}
        {note !== undefined && <small>{note}</small>}
      </dd>
    </div>
  )
}
