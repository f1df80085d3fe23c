/** What every call takes. */
export interface Abortable {
  /** Aborting makes the call throw `cancelled`. */
  readonly signal?: AbortSignal | undefined
}
