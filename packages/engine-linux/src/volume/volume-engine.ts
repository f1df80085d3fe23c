import { type Held, ReadWriteLock } from '@dormouse/async'
import { DormouseError, type SandboxId, type VolumeId } from '@dormouse/contracts'
import type { EngineVolumes, Measurement, StopAt, VolumeFiles, VolumeMount } from '@dormouse/engine'
import { cloneInto, type Writer } from './clone-volume.ts'
import { filesInVolume } from './files-in-volume.ts'
import { VolumeChanges } from './volume-changes.ts'
import { VolumeStore } from './volume-store.ts'

interface MountingBurrow extends Writer {
  readonly sandboxId: SandboxId
  readonly record: { readonly volumes: readonly VolumeMount[] }
}

/** The volumes of an engine. */
export abstract class VolumeEngine implements EngineVolumes {
  protected readonly volumes: VolumeStore
  readonly #locks = new Map<VolumeId, ReadWriteLock>()
  readonly #changes = new VolumeChanges()
  /** Another engine of this server, whose burrows mount the same volumes. */
  #other: VolumeEngine | undefined

  protected constructor(volumesDir: string) {
    this.volumes = new VolumeStore(volumesDir)
  }

  /** From now on a volume of either engine is in use when a burrow of the other one mounts it. */
  shareVolumes(other: VolumeEngine): void {
    this.#other = other
    other.#other = this
  }

  /** Burrows that mount it. */
  protected abstract burrowsWith(volumeId: VolumeId): readonly MountingBurrow[]

  createVolume(
    ...volume: Parameters<EngineVolumes['createVolume']>
  ): ReturnType<EngineVolumes['createVolume']> {
    return this.volumes.create(...volume)
  }

  limitVolumes(limits: Parameters<EngineVolumes['limitVolumes']>[0]): Promise<ReadonlySet<VolumeId>> {
    return this.volumes.quotas.set(limits)
  }

  async deleteVolume(volumeId: VolumeId): Promise<void> {
    const user = this.#allWith(volumeId)[0]?.sandboxId
    if (user !== undefined) throw new DormouseError('in_use', `The volume ${volumeId} is mounted in ${user}.`)
    await this.volumes.delete(volumeId)
    this.#locks.delete(volumeId)
  }

  async listVolumes(): Promise<readonly VolumeId[]> {
    return this.volumes.list()
  }

  async measureVolume(volumeId: VolumeId, stopAt?: StopAt): Promise<Measurement> {
    return this.volumes.measure(volumeId, stopAt)
  }

  cloneVolume(clone: Parameters<EngineVolumes['cloneVolume']>[0]): ReturnType<EngineVolumes['cloneVolume']> {
    const { from } = clone
    return cloneInto(this.volumes, {
      ...clone,
      writers: () => this.#allWith(from).filter((burrow) => canWrite(burrow, from)),
      whileUnused: (work) => this.#whileUnused(from, work, clone.signal),
      countChanges: () => this.#changes.count(from),
    })
  }

  volumeFiles(volumeId: VolumeId): VolumeFiles {
    return this.#changes.watch(
      volumeId,
      filesInVolume(() => this.volumes.find(volumeId), volumeId),
    )
  }

  /** Runs what starts, saves or replaces a burrow. A volume that it can write to is not being cloned meanwhile. */
  protected async whileMounting<Value>(
    mounts: readonly VolumeMount[],
    work: () => Promise<Value>,
    signal?: AbortSignal,
  ): Promise<Value> {
    const held: Held[] = []
    try {
      // In one order for all, so that two that wait for each other's volumes cannot both wait.
      for (const id of mounts.flatMap(({ volumeId, readOnly }) => (readOnly ? [] : volumeId)).sort())
        held.push(await this.#lockOf(id).read(signal))
      return await work()
    } finally {
      for (const lock of held) lock.release()
    }
  }

  #allWith(volumeId: VolumeId): readonly MountingBurrow[] {
    return [...this.burrowsWith(volumeId), ...(this.#other?.burrowsWith(volumeId) ?? [])]
  }

  #whileUnused<Value>(id: VolumeId, work: () => Promise<Value>, signal?: AbortSignal): Promise<Value> {
    const other = this.#other
    if (other === undefined) return this.#lockOf(id).write(work, signal)
    return this.#lockOf(id).write(() => other.#lockOf(id).write(work, signal), signal)
  }

  #lockOf(volumeId: VolumeId): ReadWriteLock {
    const lock = this.#locks.get(volumeId) ?? new ReadWriteLock()
    this.#locks.set(volumeId, lock)
    return lock
  }
}

function canWrite({ record }: MountingBurrow, id: VolumeId): boolean {
  return record.volumes.some(({ volumeId, readOnly }) => volumeId === id && !readOnly)
}
