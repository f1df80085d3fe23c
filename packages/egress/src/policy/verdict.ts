export type Verdict = Allowed | Refused

export interface Allowed {
  readonly allowed: true
  /** Reached because of its name: the connection must go on to ask for a name that a rule covers. */
  readonly byName: boolean
}

export interface Refused {
  readonly allowed: false
  /** A few words for the one who wonders why. */
  readonly reason: string
  /** Not worth a word: programs ask for such names all the time, and there are none. */
  readonly isUnheardOf?: true
}

export const ALLOWED: Allowed = { allowed: true, byName: false }
export const ALLOWED_BY_NAME: Allowed = { allowed: true, byName: true }

export function refused(reason: string): Refused {
  return { allowed: false, reason }
}
