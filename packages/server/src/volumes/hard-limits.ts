import type { VolumeId } from '@dormouse/contracts'
import type { EngineVolumes, SizeLimit, VolumeLimits } from '@dormouse/engine'

/** Limits that the kernel enforces, as they were last set. */
export class HardLimits {
  readonly #engine: Pick<EngineVolumes, 'limitVolumes'>
  readonly #limits = new Map<VolumeId, VolumeLimits>()

  constructor(engine: Pick<EngineVolumes, 'limitVolumes'>) {
    this.#engine = engine
  }

  has(id: VolumeId): boolean {
    return this.#limits.has(id)
  }

  add(id: VolumeId, limits: VolumeLimits, sizeLimit: SizeLimit): void {
    if (sizeLimit === 'hard') this.#limits.set(id, limits)
    else this.#limits.delete(id)
  }

  /** Sets limits, and learns which of them are hard. */
  async set(limits: readonly (VolumeLimits & { readonly volumeId: VolumeId })[]): Promise<void> {
    const hard = await this.#engine.limitVolumes(limits)
    for (const { volumeId, bytes, files } of limits)
      this.add(volumeId, { bytes, files }, hard.has(volumeId) ? 'hard' : 'measured')
  }

  /** Sets a hard limit again if it is not what it was. */
  async keep(id: VolumeId, { bytes, files }: VolumeLimits): Promise<void> {
    const known = this.#limits.get(id)
    if (known !== undefined && (known.bytes !== bytes || known.files !== files))
      await this.set([{ volumeId: id, bytes, files }])
  }
}
