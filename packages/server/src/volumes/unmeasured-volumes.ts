import type { VolumeId } from '@dormouse/contracts'
import type { DiskUse, Engine } from '@dormouse/engine'
import type { Subject } from '../sandbox/measuring-turns.ts'
import type { SandboxListener } from '../sandbox/sandbox-listener.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'

export interface UnmeasuredVolumesOptions {
  readonly rows: VolumeRows
  readonly engine: Pick<Engine, 'measureVolume'>
  /** Those that a sandbox can write to at this moment. */
  readonly inUse: () => Iterable<VolumeId>
  readonly limitsOf: (row: VolumeRow) => { readonly bytes: number; readonly files: number }
  /** It holds more than it may. */
  readonly onOver: (id: VolumeId) => void
}

/** Says which volumes are to be measured: those that somebody may have written to since they last were. Keeps what was found in their rows. */
export class UnmeasuredVolumes {
  readonly #options: UnmeasuredVolumesOptions
  readonly #unseen: Set<VolumeId>

  constructor(options: UnmeasuredVolumesOptions) {
    this.#options = options
    // Also those that were written to under an earlier server, a moment before its end.
    this.#unseen = new Set(options.rows.all().map(({ id }) => id))
  }

  /** A sandbox that wakes, writes and sleeps between two rounds is noticed here. */
  get listener(): SandboxListener {
    const mark = ({ volumes }: Pick<SandboxRow, 'volumes'>) => {
      for (const { volumeId, readOnly } of volumes) if (!readOnly) this.#unseen.add(volumeId)
    }
    return { recorded: mark, deleted: mark }
  }

  list(): Subject[] {
    const { rows, inUse } = this.#options
    for (const id of inUse()) this.#unseen.add(id)
    if (this.#unseen.size === 0) return []
    const known = new Map(rows.all().map((row) => [row.id, row]))
    for (const id of this.#unseen) if (!known.has(id)) this.#unseen.delete(id)
    return [...this.#unseen].flatMap((id) => this.#subject(known.get(id)))
  }

  #subject(row: VolumeRow | undefined): Subject[] {
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
        found: (use) => this.#found(id, use),
      },
    ]
  }

  #found(id: VolumeId, use: DiskUse): void {
    const { rows, limitsOf, onOver } = this.#options
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
