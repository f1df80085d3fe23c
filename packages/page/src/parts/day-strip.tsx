import type { SandboxActivity } from 'dormouse'
import { duration } from '../words.ts'

const DAY_MS = 86_400_000

/** Awake and asleep in the last 24 hours; now is at the right. */
export function DayStrip({ day }: { day: SandboxActivity['day'] | undefined }) {
  if (day === undefined) return <span class="strip" />
  const end = Math.max(Date.now(), ...day.map(({ to }) => Date.parse(to)))
  const place = (iso: string) => Math.max(0, 100 * (1 - (end - Date.parse(iso)) / DAY_MS))
  const awakeMs = day
    .filter(({ state }) => state === 'running')
    .reduce((sum, { from, to }) => sum + Date.parse(to) - Date.parse(from), 0)
  const words = `awake ${duration(awakeMs)} of the last day`
  return (
    <svg class="strip" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label={words}>
      <title>{words}</title>
      {day.map(({ state, from, to }) => (
        <rect
          key={from}
          class={state}
          x={place(from)}
          y={state === 'running' ? 0 : 3}
          width={Math.max(state === 'running' ? 0.7 : 0, place(to) - place(from))}
          height={state === 'running' ? 10 : 4}
        />
      ))}
    </svg>
  )
}
