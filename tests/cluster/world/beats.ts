/** A sandbox has reached the witness through the gate of a host. */
export interface Beat {
  readonly sandbox: string
  /** The host. */
  readonly from: string
  readonly at: number
}

/** A time in which a sandbox was heard from one host only. */
export interface Reign {
  readonly from: string
  readonly beganAt: number
  endedAt: number
  beats: number
}

export function reignsOf(beats: readonly Beat[], sandbox: string): Reign[] {
  const reigns: Reign[] = []
  for (const { from, at } of beats.filter((beat) => beat.sandbox === sandbox)) {
    const last = reigns.at(-1)
    if (last?.from !== from) reigns.push({ from, beganAt: at, endedAt: at, beats: 1 })
    else {
      last.endedAt = at
      last.beats += 1
    }
  }
  return reigns
}

/**
 * A sandbox that runs on two hosts is heard from both, in turns. A host that has just taken a sandbox over has a lease,
 * and keeps the sandbox for most of a lease time: a shorter reign between two others means that two hosts acted.
 */
export function findOverlap(beats: readonly Beat[], leaseMs: number): string | undefined {
  for (const sandbox of new Set(beats.map((beat) => beat.sandbox))) {
    const reigns = reignsOf(beats, sandbox)
    for (const [index, { from, beganAt }] of reigns.entries()) {
      const next = reigns[index + 1]
      if (index === 0 || next === undefined || next.beganAt - beganAt > 0.2 * leaseMs) continue
      const around = reigns.slice(index - 1, index + 3)
      return `${sandbox} was heard from ${from} for ${next.beganAt - beganAt} ms: ${JSON.stringify(around)}`
    }
  }
  return undefined
}
