/** The options of every call. */
export interface Abortable {
  /** Aborting makes the call throw `cancelled`. */
  readonly signal?: AbortSignal | undefined
}
