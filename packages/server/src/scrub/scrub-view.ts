import type { SandboxId, SnapshotId } from '@dormouse/contracts'

/** Progress and findings of the scrub. */
export interface ScrubView {
  readonly state: 'idle' | 'running'
  /** Set while a pass runs, once the parts are listed. */
  readonly progress: { readonly parts: number; readonly checkedParts: number } | undefined
  /** Start of the current pass, or of the last one. */
  readonly beganAt: string | undefined
  /** End of the last complete pass. */
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
