/** The options of calls that end by themselves, or whose `timeoutMs` is for what they start. */
export interface Abortable {
  /** Aborting makes the call throw `cancelled`, or `timed_out` for a signal of `AbortSignal.timeout()`. */
  readonly signal?: AbortSignal | undefined
}

/** The options of every other call. */
export interface CallOptions extends Abortable {
  /** The call throws `timed_out` after this time. 0: never. Default: the client's `timeoutMs` for each answer. */
  readonly timeoutMs?: number | undefined
}
