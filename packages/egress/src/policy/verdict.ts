export type Verdict = Allowed | Refused

export interface Allowed {
  readonly allowed: true
  /** Reached because of its name: the connection must ask for a name that may be reached at this address. */
  readonly byName: boolean
  /** Open to registries only: nothing is sent or heard there before the connection has asked for one by name. */
  readonly isRegistry?: true
}

export interface Refused {
  readonly allowed: false
  /** A few words for the one who wonders why. */
  readonly reason: string
  /** Not worth a word: programs ask for such names all the time, and there are none. */
  readonly isUnrecorded?: true
}

export const ALLOWED: Allowed = { allowed: true, byName: false }
export const ALLOWED_BY_NAME: Allowed = { allowed: true, byName: true }
export const ALLOWED_AS_REGISTRY: Allowed = { allowed: true, byName: true, isRegistry: true }

export function refused(reason: string): Refused {
  return { allowed: false, reason }
}
