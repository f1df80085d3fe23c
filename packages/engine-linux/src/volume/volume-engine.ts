import { DormouseError, type SandboxId, type VolumeId } from '@dormouse/contracts'
import type { EngineVolumes, Measurement, StopAt, VolumeFiles } from '@dormouse/engine'
import { cloneInto } from './clone-volume.ts'
import { filesInVolume } from './files-in-volume.ts'
import { VolumeStore } from './volume-store.ts'

/** The volumes of an engine. */
export abstract class VolumeEngine implements EngineVolumes {
  protected readonly volumes: VolumeStore

  protected constructor(volumesDir: string) {
    this.volumes = new VolumeStore(volumesDir)
  }

  /** A sandbox with a burrow that mounts it. */
  protected abstract mountedIn(volumeId: VolumeId): SandboxId | undefined

  async createVolume(volumeId: VolumeId): Promise<void> {
    await this.volumes.create(volumeId)
  }

  async deleteVolume(volumeId: VolumeId): Promise<void> {
    const user = this.mountedIn(volumeId)
    if (user !== undefined) throw new DormouseError('in_use', `The volume ${volumeId} is mounted in ${user}.`)
    await this.volumes.delete(volumeId)
  }

  async listVolumes(): Promise<readonly VolumeId[]> {
    return this.volumes.list()
  }

  async measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement> {
    return this.volumes.measure(volumeId, stopAt)
  }

  cloneVolume(clone: Parameters<EngineVolumes['cloneVolume']>[0]): Promise<void> {
    return cloneInto(this.volumes, clone)
  }

  volumeFiles(volumeId: VolumeId): VolumeFiles {
    return filesInVolume(() => this.volumes.find(volumeId), volumeId)
  }
}
