import type { Readable } from 'node:stream'
import type { SnapshotId } from '@dormouse/contracts'

/** What a host must have to restore a snapshot, in the words of the engine that took it. Plain data. */
export type SnapshotNeeds = unknown

/** What a host has for snapshots of other hosts, in the words of its engine. Plain data. */
export type HostAbilities = unknown

/** Bytes of a sparse file that are not a hole: its offset and its length. Whole pages, except at the end of the file. */
export type Extent = readonly [offset: number, lengthBytes: number]

/** One piece of a snapshot as a stream of bytes. Reading it fails when the snapshot was deleted meanwhile. */
export type PortablePart =
  | {
      readonly kind: 'archive'
      /** Parts of the same key have the same content, in every snapshot of every host. */
      readonly key: string
      readonly read: () => Readable
    }
  | {
      /** One sparse file. */
      readonly kind: 'file'
      readonly key: string
      readonly sizeBytes: number
      /** Another host uses it only when all of it is there, so it is best fetched in large pieces. */
      readonly isReadWhole: boolean
      /** `content` has the bytes of all extents, without the holes between them. */
      readonly read: () => Promise<{ readonly extents: readonly Extent[]; readonly content: Readable }>
    }

/** A snapshot as it travels to another host. */
export interface PortableSnapshot {
  readonly needs: SnapshotNeeds
  readonly parts: readonly PortablePart[]
}

/** A sparse file that is on its way. Its extents one after the other are cut into chunks. */
export interface SparseFile {
  readonly sizeBytes: number
  readonly extents: readonly Extent[]
  /** Whole pages. The last chunk may be shorter. */
  readonly chunkBytes: number
  /** The bytes of a chunk. */
  readonly load: (chunk: number) => Promise<Uint8Array>
}

/** A part that has come from another host. */
export type ArrivingPart =
  | { readonly kind: 'archive'; readonly key: string; readonly content: () => AsyncIterable<Uint8Array> }
  | { readonly kind: 'file'; readonly key: string; readonly file: SparseFile }

/** A snapshot that can be restored, while parts of its memory are still on their way. */
export interface ArrivingSnapshot {
  readonly id: SnapshotId
  /** What `import` was told about where it comes from. */
  readonly origin: string
}

/**
 * What many snapshots stand on, and what travels for itself: a build of a template, a version of the guest tools. A base
 * has a key; those of the same key have the same content on every host.
 */
export interface BaseTransfer {
  /** The bases that a snapshot needs. */
  neededBy(needs: SnapshotNeeds): readonly string[]
  /** The bases that a host has. */
  heldBy(abilities: HostAbilities): readonly string[]
  isHere(key: string): Promise<boolean>
  /** Throws `not_found`. */
  export(key: string): Promise<PortablePart>
  /**
   * Post: snapshots that need it can be restored. Does nothing when it is here. On failure nothing of it is left. Throws
   * `snapshot_unusable` when the part is something else.
   */
  import(key: string, part: ArrivingPart): Promise<void>
  /** Those that came from other hosts. Undefined when they cannot be removed here. */
  readonly fetched?: FetchedBases | undefined
}

export interface FetchedBases {
  /** The ones that no snapshot and no burrow of this host needs. */
  unused(): Promise<readonly { readonly key: string; readonly bytes: number }[]>
  /**
   * False when something needs it, or it is not here. Pre: no snapshot is imported meanwhile that needs it. When it is cut
   * off, the base is here as a whole, or not at all.
   */
  remove(key: string): Promise<boolean>
  /** Removes what was left of removals that were cut off. */
  removeUnfinished(): Promise<void>
}

/**
 * Snapshots that one host takes and another one restores. Engines of one kind understand each other; what carries parts
 * from host to host knows no engine.
 */
export interface SnapshotTransfer {
  abilities(): Promise<HostAbilities>
  /**
   * Why a host with these abilities cannot restore the snapshot; undefined when it can. It lacks no base that `canFetch`
   * says.
   */
  problemOf(
    needs: SnapshotNeeds,
    abilities: HostAbilities,
    canFetch?: (base: string) => boolean,
  ): string | undefined
  /** Why a host with these abilities cannot make burrows of a template of the host; undefined when it can. */
  problemOfTemplate(name: string, abilities: HostAbilities): string | undefined
  /** Runs `work` with the parts of a snapshot, which stay on disk meanwhile. Throws `not_found`. */
  export<Value>(snapshotId: SnapshotId, work: (snapshot: PortableSnapshot) => Promise<Value>): Promise<Value>
  /**
   * Post: the snapshot can be restored. Archives are on disk, and files may follow in the background: first what the
   * last wake touched and what the processes ask for, then the rest. Does nothing when it is there already. On failure
   * nothing of it is left. Throws `snapshot_unusable` when this host lacks what it needs, or a part is damaged. `needs`:
   * as exported; its bases are here.
   */
  import(
    snapshotId: SnapshotId,
    parts: readonly ArrivingPart[],
    origin: string,
    needs?: SnapshotNeeds,
  ): Promise<void>
  /** Undefined: snapshots bring all that they stand on. */
  readonly bases?: BaseTransfer
  /** Snapshots whose memory an earlier server did not get to. They cannot be restored until `resume`. */
  interrupted(): Promise<readonly ArrivingSnapshot[]>
  /** Continues to fetch the memory of a snapshot. */
  resume(snapshotId: SnapshotId, parts: readonly ArrivingPart[]): Promise<void>
  /** Post: all of the snapshot is on disk. Does nothing for one that did not come from another host. */
  untilArrived(snapshotId: SnapshotId): Promise<void>
  /** Forms of snapshots on disk that this version can restore and an earlier one could not. They never travel. */
  readonly forms: readonly string[]
  /** Upkeep makes no snapshot of a form while this returns false. */
  limitForms(isUsable: (form: string) => boolean): void
  /** Bytes of memory that have come from other hosts since the engine opened. */
  readonly arrivedBytes: number
}
