export type Verdict = Allowed | Refused

export interface Allowed {
  readonly allowed: true
  /** Allowed by name: the connection must ask for a name that is allowed at this address. */
  readonly byName: boolean
  /**
   * Only registries are allowed at this address. The gate sends and receives nothing before the client has named one.
   */
  readonly isRegistry?: true
}

export interface Refused {
  readonly allowed: false
  /** The reason, in a few words for people. */
  readonly reason: string
  /** Not reported as a denial: programs look up such names all the time, and they do not exist. */
  readonly isUnrecorded?: true
}

export const ALLOWED: Allowed = { allowed: true, byName: false }
export const ALLOWED_BY_NAME: Allowed = { allowed: true, byName: true }
export const ALLOWED_AS_REGISTRY: Allowed = { allowed: true, byName: true, isRegistry: true }

export function refused(reason: string): Refused {
  return { allowed: false, reason }
}
