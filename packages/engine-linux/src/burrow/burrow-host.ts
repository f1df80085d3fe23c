import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import type { FailureLog } from '../host/failure-log.ts'
import type { Layout } from '../host/layout.ts'
import type { SparePool } from './spare.ts'

/** What every burrow of an engine is made with. */
export interface BurrowHost {
  readonly layout: Layout
  readonly hierarchies: Hierarchies
  readonly spares: SparePool
  readonly failures: FailureLog
  /** What CRIU knows about this kernel. Burrows see it at /.dormouse/kdat. */
  readonly kdatDir?: string
}
