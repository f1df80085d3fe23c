import type { BurrowHost } from '../burrow/burrow-host.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import type { UnsyncedSnapshots } from '../storage/unsynced-snapshots.ts'
import type { VerifiedSnapshots } from '../storage/verify-snapshot.ts'
import type { Arrivals } from './arrivals.ts'

/** What every snapshot of an engine is taken and restored with. */
export interface SnapshotHost extends BurrowHost {
  /** Read and rewrite CRIU's images. */
  readonly imageThreads: ImageThreads
  readonly verified: VerifiedSnapshots
  readonly unsynced: UnsyncedSnapshots
  /** Snapshots whose memory is still on its way. */
  readonly arrivals: Arrivals
}
