import type { VolumeId } from '@dormouse/contracts'
import type { DiskUse, Engine, Measurement } from '@dormouse/engine'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'

export interface UnmeasuredVolumesOptions {
  readonly rows: VolumeRows
  readonly engine: Pick<Engine, 'measureVolume'>
  /** Volumes that a running sandbox can write to. */
  readonly inUse: () => Iterable<VolumeId>
  /** Called with every measurement. */
  readonly onMeasured?: (row: VolumeRow) => void
  readonly limitsOf: (row: VolumeRow) => { readonly bytes: number; readonly files: number }
}

/** A volume to be measured, as the measuring of disks takes it. */
interface MeasuredVolume {
  readonly key: VolumeId
  readonly bytesPerSecond: number
  readonly limits: { readonly bytes: number; readonly files: number }
  readonly begin: () => Measurement | Promise<Measurement>
  readonly found: (use: DiskUse) => void
}

/** The volumes that may have been written to since they were last measured. Stores measurements in their rows. */
export class UnmeasuredVolumes {
  readonly #options: UnmeasuredVolumesOptions
  readonly #unmeasured: Set<VolumeId>

  constructor(options: UnmeasuredVolumesOptions) {
    this.#options = options
    // All of them: sandboxes of an earlier server may have written to them just before it ended.
    this.#unmeasured = new Set(options.rows.all().map(({ id }) => id))
  }

  /** Notices sandboxes that wake, write and sleep between two rounds of measuring. */
  get listener() {
    const mark = ({ volumes }: Pick<SandboxRow, 'volumes'>): void => {
      for (const { volumeId, readOnly } of volumes) if (!readOnly) this.#unmeasured.add(volumeId)
    }
    return { recorded: mark, deleted: mark }
  }

  /** Calls `onOver` for volumes that exceed their limits. */
  list(onOver: (id: VolumeId) => void): MeasuredVolume[] {
    const { rows, inUse } = this.#options
    for (const id of inUse()) this.#unmeasured.add(id)
    if (this.#unmeasured.size === 0) return []
    const known = new Map(rows.all().map((row) => [row.id, row]))
    for (const id of this.#unmeasured) if (!known.has(id)) this.#unmeasured.delete(id)
    return [...this.#unmeasured].flatMap((id) => this.#measured(known.get(id), onOver))
  }

  #measured(row: VolumeRow | undefined, onOver: (id: VolumeId) => void): MeasuredVolume[] {
    if (row?.state !== 'ready') return []
    const { engine, limitsOf } = this.#options
    const { id } = row
    const limits = limitsOf(row)
    return [
      {
        ...{ key: id, bytesPerSecond: 0, limits },
        begin: () => {
          // Removed before measuring: writes during the measurement count for the next one.
          this.#unmeasured.delete(id)
          return engine.measureVolume(id)
        },
        found: (use) => this.#found(id, use, onOver),
      },
    ]
  }

  #found(id: VolumeId, use: DiskUse, onOver: (id: VolumeId) => void): void {
    const { rows, limitsOf, onMeasured } = this.#options
    rows.setUse(id, use)
    const row = rows.get(id)
    if (row !== undefined) onMeasured?.(row)
    if (row !== undefined && isOver(row, limitsOf(row))) onOver(id)
  }
}

export function isOver(
  { bytes, files }: Pick<VolumeRow, 'bytes' | 'files'>,
  limits: { readonly bytes: number; readonly files: number },
): boolean {
  return (bytes ?? 0) > limits.bytes || (files ?? 0) > limits.files
}
