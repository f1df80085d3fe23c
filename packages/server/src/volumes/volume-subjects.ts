import type { VolumeId } from '@dormouse/contracts'
import type { DiskUse, Engine } from '@dormouse/engine'
import type { MeasuredTree } from '../host/disk-measuring.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'

export interface VolumeSubjectsOptions {
  readonly rows: VolumeRows
  readonly engine: Pick<Engine, 'measureVolume'>
  /** Those that a sandbox can write to at this moment. */
  readonly inUse: () => Iterable<VolumeId>
  readonly limitsOf: (row: VolumeRow) => { readonly bytes: number; readonly files: number }
}

/** Says which volumes are to be measured: those that somebody may have written to since they last were. Keeps what was found in their rows. */
export class VolumeSubjects {
  readonly #options: VolumeSubjectsOptions
  readonly #unseen: Set<VolumeId>

  constructor(options: VolumeSubjectsOptions) {
    this.#options = options
    // Also those that were written to under an earlier server, a moment before its end.
    this.#unseen = new Set(options.rows.all().map(({ id }) => id))
  }

  /** A sandbox that wakes, writes and sleeps between two rounds is noticed here. */
  get listener() {
    const mark = ({ volumes }: Pick<SandboxRow, 'volumes'>) => {
      for (const { volumeId, readOnly } of volumes) if (!readOnly) this.#unseen.add(volumeId)
    }
    return { recorded: mark, deleted: mark }
  }

  /** `onOver` is called with volumes that hold more than they may. */
  list(onOver: (id: VolumeId) => void): MeasuredTree[] {
    const { rows, inUse } = this.#options
    for (const id of inUse()) this.#unseen.add(id)
    if (this.#unseen.size === 0) return []
    const known = new Map(rows.all().map((row) => [row.id, row]))
    for (const id of this.#unseen) if (!known.has(id)) this.#unseen.delete(id)
    return [...this.#unseen].flatMap((id) => this.#treeOf(known.get(id), onOver))
  }

  #treeOf(row: VolumeRow | undefined, onOver: (id: VolumeId) => void): MeasuredTree[] {
    if (row?.state !== 'ready') return []
    const { engine, limitsOf } = this.#options
    const { id } = row
    const limits = limitsOf(row)
    return [
      {
        ...{ key: id, bytesPerSecond: 0, limits },
        begin: () => {
          // Before it is looked at: what is written meanwhile is found by the next measurement.
          this.#unseen.delete(id)
          return engine.measureVolume(id)
        },
        found: (use) => this.#found(id, use, onOver),
      },
    ]
  }

  #found(id: VolumeId, use: DiskUse, onOver: (id: VolumeId) => void): void {
    const { rows, limitsOf } = this.#options
    rows.setUse(id, use)
    const row = rows.get(id)
    if (row !== undefined && isOver(row, limitsOf(row))) onOver(id)
  }
}

export function isOver(
  { bytes, files }: Pick<VolumeRow, 'bytes' | 'files'>,
  limits: { readonly bytes: number; readonly files: number },
): boolean {
  return (bytes ?? 0) > limits.bytes || (files ?? 0) > limits.files
}
