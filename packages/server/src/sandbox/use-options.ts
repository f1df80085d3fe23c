export type WakeCause =
  | 'run'
  | 'file'
  | 'process'
  | 'context'
  | 'resume'
  | 'fork'
  | 'rollback'
  | 'port'
  | 'ssh'
  | 'timer'
  | 'data'
  | 'limit_raised'
  | 'checkpoint'
  | 'volumes'
export type StandbyCause =
  | 'asked'
  | 'disk'
  | 'expired'
  | 'idle'
  | 'memory'
  | 'memory_limit'
  | 'shutdown'
  | 'store_after'
  | 'unshared'
  | 'volumes'

export interface UseOptions {
  readonly cause: WakeCause
  /** Shown by `why` while the call lasts. */
  readonly what: string
  readonly signal?: AbortSignal | undefined
}
