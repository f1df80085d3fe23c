import { DormouseError, hasErrorCode, isSnapshotId, type SnapshotId } from '@dormouse/contracts'

/**
 * What goes wrong after a snapshot is on disk. The burrow is over by then, so whoever asked must learn where its state is, and must not
 * take it for a refusal.
 */
export function savedBut(snapshotId: SnapshotId, what: string, cause: unknown): DormouseError {
  return new DormouseError('restore_failed', `The sandbox was saved, but ${what}.`, {
    hint: 'Nothing is lost: restore the snapshot named in the details.',
    details: { snapshotId },
    cause,
  })
}

/** The snapshot that an error says everything is in. */
export function savedAs(error: unknown): SnapshotId | undefined {
  const { snapshotId } = hasErrorCode(error, 'restore_failed') ? error.details : {}
  return typeof snapshotId === 'string' && isSnapshotId(snapshotId) ? snapshotId : undefined
}
