import type { SandboxId, SnapshotId } from '@dormouse/contracts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'

/** Snapshots that callers keep, and that any host of the cluster can fetch. Absent outside a cluster. */
export interface SnapshotsElsewhere {
  find(id: string): SnapshotRow | undefined
  findNamed(sandboxId: SandboxId, name: string): SnapshotRow | undefined
  /** Those that are not on this host. Without `owner`: of all owners. */
  list(query: { sandboxId?: string | undefined }, owner: string | undefined): SnapshotRow[]
  /** Post: the snapshot is on this host. Does nothing for one that is, or that no host knows. */
  bring(id: SnapshotId): Promise<void>
  /** Its owner does not keep it any more. Other hosts remove their copies. */
  release(id: SnapshotId): Promise<void>
}
