import type { SnapshotId } from '@dormouse/contracts'

/** The disk space of a directory tree. */
export interface DiskUse {
  readonly bytes: number
  /** Number of names: files, directories and links. */
  readonly files: number
  /** False when counting stopped at a bound; there may be more. */
  readonly isWhole: boolean
}

/** A measurement stops as soon as it has found more than this, which bounds its time. */
export interface StopAt {
  readonly bytes?: number
  readonly files?: number
}

/**
 * A measurement that runs in turns, because it may take minutes. Between turns it is stopped and takes only a little
 * memory. Dispose of it at the end.
 */
export interface Measurement extends Disposable {
  /** Runs for at most this long. Undefined: it is not finished yet. */
  advance(ms: number): Promise<DiskUse | undefined>
}

export interface StorageReport {
  /** Every byte counted once. */
  readonly totalBytes: number
  /** What several snapshots share is divided among them, so the sum is the total. */
  readonly snapshots: ReadonlyMap<SnapshotId, number>
}
