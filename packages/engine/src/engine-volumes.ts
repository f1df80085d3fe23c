import type { VolumeId } from '@dormouse/contracts'
import type { GuestFiles } from './guest.ts'
import type { Measurement, StopAt } from './measurement.ts'

/** What an engine does with volumes. No burrow need run for it. */
export interface EngineVolumes {
  /** Makes an empty directory. Throws `already_exists`. */
  createVolume(volumeId: VolumeId): Promise<void>
  /**
   * Removes a volume with its content. Pre: no burrow mounts it (`in_use`). Does nothing when there is no such volume.
   */
  deleteVolume(volumeId: VolumeId): Promise<void>
  listVolumes(): Promise<readonly VolumeId[]>
  /** Measures the disk space of a volume, in turns. Throws `not_found`. */
  measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement>
  /**
   * Makes a volume with the content of another one, and shares blocks where the file system can. Files that burrows
   * change meanwhile are copied as they are at that moment. Throws `not_found`, `already_exists`. After a failure or an
   * abort there is no new volume.
   */
  cloneVolume(clone: {
    readonly from: VolumeId
    readonly to: VolumeId
    readonly signal?: AbortSignal | undefined
  }): Promise<void>
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
