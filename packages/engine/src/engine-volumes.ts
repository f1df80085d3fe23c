import type { VolumeId } from '@dormouse/contracts'
import type { GuestFiles } from './guest.ts'
import type { Measurement, StopAt } from './measurement.ts'

/** What a volume may hold. */
export interface VolumeLimits {
  readonly bytes: number
  /** Files, directories and links. */
  readonly files: number
}

/** `hard`: the kernel refuses what does not fit. `measured`: the caller measures, and acts when it is too much. */
export type SizeLimit = 'hard' | 'measured'

/** What an engine does with volumes. No burrow need run for it. */
export interface EngineVolumes {
  /** Makes an empty directory. Without limits they are `measured`. Throws `already_exists`. */
  createVolume(volumeId: VolumeId, limits?: VolumeLimits): Promise<SizeLimit>
  /** Changes limits. Returns the volumes whose limits are hard; one that was made without limits never is. */
  limitVolumes(
    limits: readonly (VolumeLimits & { readonly volumeId: VolumeId })[],
  ): Promise<ReadonlySet<VolumeId>>
  /**
   * Removes a volume with its content. Pre: no burrow mounts it (`in_use`). Does nothing when there is no such volume.
   */
  deleteVolume(volumeId: VolumeId): Promise<void>
  listVolumes(): Promise<readonly VolumeId[]>
  /** Measures the disk space of a volume, in turns. Throws `not_found`. */
  measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement>
  /**
   * Makes a volume with the content of another one, and shares blocks where the file system can. Burrows that can write
   * to it are stopped meanwhile, for at most two seconds; then they continue, and each file is copied as it is when its
   * turn comes. `isOneMoment` says whether nothing changed during the copy. Throws `not_found`, `already_exists` and, if
   * the content exceeds hard limits, `limit_reached`. After a failure or an abort there is no new volume.
   */
  cloneVolume(clone: {
    readonly from: VolumeId
    readonly to: VolumeId
    readonly limits?: VolumeLimits
    readonly signal?: AbortSignal | undefined
  }): Promise<{ readonly sizeLimit: SizeLimit; readonly isOneMoment: boolean }>
  /** The files of a volume, which burrows may change at the same time. Calls throw `not_found`. */
  volumeFiles(volumeId: VolumeId): VolumeFiles
}

/** Paths are absolute; the volume is their root, and links lead nowhere but into it. New files belong to root inside. */
export type VolumeFiles = Pick<GuestFiles, 'open' | 'stat' | 'list' | 'mkdir' | 'move' | 'remove'> & {
  /** As in `GuestFiles`. Refuses more than `bytesMax` with `limit_reached`, and then changes nothing. */
  write(
    path: string,
    data: Parameters<GuestFiles['write']>[1],
    options?: Parameters<GuestFiles['write']>[2] & { bytesMax?: number },
  ): ReturnType<GuestFiles['write']>
}
