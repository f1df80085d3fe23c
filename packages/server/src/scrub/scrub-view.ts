import type { SandboxId, SnapshotId } from '@dormouse/contracts'

/** How far the scrub has come, and what it found. */
export interface ScrubView {
  readonly state: 'idle' | 'running'
  /** While it runs, once what there is has been listed. */
  readonly progress: { readonly parts: number; readonly checkedParts: number } | undefined
  /** When the pass that runs, or the last one, began. */
  readonly beganAt: string | undefined
  /** When the last pass that read everything ended. */
  readonly finishedAt: string | undefined
  /** Bytes read so far, by all passes. */
  readonly readBytes: number
  readonly damagedSnapshots: readonly {
    readonly snapshotId: SnapshotId
    readonly sandboxId: SandboxId
    readonly reason: string
    readonly foundAt: string
  }[]
  readonly damagedTemplates: readonly {
    readonly template: string
    readonly reason: string
    readonly foundAt: string
  }[]
}
