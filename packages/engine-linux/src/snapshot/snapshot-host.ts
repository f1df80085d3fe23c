import type { Arrivals } from '../arrival/arrivals.ts'
import type { BurrowHost } from '../burrow/burrow-host.ts'
import type { ReadyPageWorker } from '../image/ready-page-worker.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import type { UnsyncedSnapshots } from '../storage/unsynced-snapshots.ts'
import type { VerifiedSnapshots } from '../storage/verify-snapshot.ts'

/** What every snapshot of an engine is taken and restored with. */
export interface SnapshotHost extends BurrowHost {
  /** Read and rewrite CRIU's images. */
  readonly imageThreads: ImageThreads
  /** Makes pages of folded snapshots. */
  readonly unfolder: ReadyPageWorker
  readonly verified: VerifiedSnapshots
  readonly unsynced: UnsyncedSnapshots
  /** Snapshots whose memory is still on its way. */
  readonly arrivals: Arrivals
}
