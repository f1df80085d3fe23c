/** Usage is kept by the hour of the clock, UTC. */
export const HOUR_MS = 3_600_000

export interface PartOfHour {
  /** Since the epoch. */
  readonly hour: number
  readonly from: number
  readonly to: number
}

export function hourOf(at: number): number {
  return Math.floor(at / HOUR_MS)
}

/** Splits a period at the hours. An empty period has no parts. */
export function* splitHours(from: number, to: number): Generator<PartOfHour> {
  for (let at = from; at < to; ) {
    const hour = hourOf(at)
    const end = Math.min(to, (hour + 1) * HOUR_MS)
    yield { hour, from: at, to: end }
    at = end
  }
}
