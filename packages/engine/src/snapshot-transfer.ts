import type { Readable } from 'node:stream'
import type { SnapshotId } from '@dormouse/contracts'

/** What a host must have to restore a snapshot, in the words of the engine that took it. Plain data. */
export type SnapshotNeeds = unknown

/** What a host has for snapshots of other hosts, in the words of its engine. Plain data. */
export type HostAbilities = unknown

/** One piece of a snapshot as a stream of bytes. */
export interface PortablePart {
  /** Parts of the same key have the same content, in every snapshot of every host. */
  readonly key: string
  /** Fails when the snapshot was deleted meanwhile. */
  readonly read: () => Readable
}

/** A snapshot as it travels to another host. */
export interface PortableSnapshot {
  readonly needs: SnapshotNeeds
  readonly parts: readonly PortablePart[]
}

/** A part that has come from another host. */
export interface ArrivingPart {
  readonly key: string
  readonly content: () => AsyncIterable<Uint8Array>
}

/** Snapshots that one host takes and another one restores. Engines of one kind understand each other. */
export interface SnapshotTransfer {
  abilities(): Promise<HostAbilities>
  /** Why a host with these abilities cannot restore the snapshot; undefined when it can. */
  problemOf(needs: SnapshotNeeds, abilities: HostAbilities): string | undefined
  /** Runs `work` with the parts of a snapshot, which stay on disk meanwhile. Throws `not_found`. */
  export<Value>(snapshotId: SnapshotId, work: (snapshot: PortableSnapshot) => Promise<Value>): Promise<Value>
  /**
   * Post: the snapshot is on disk and can be restored. Does nothing when it is there already. On failure nothing of it
   * is left. Throws `snapshot_unusable` when this host lacks what it needs, or a part is damaged.
   */
  import(snapshotId: SnapshotId, parts: readonly ArrivingPart[]): Promise<void>
}
