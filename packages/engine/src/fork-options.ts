import type { SandboxId } from '@dormouse/contracts'
import type { Burrow, LimitRestore, Snapshot } from './engine.ts'
import type { ParkedConnections } from './gate.ts'

/** The burrow in which the parent of a fork continues. */
export interface ForkedParent {
  readonly burrow: Burrow
  /** As in `ForkedBurrow`. */
  readonly snapshot: Snapshot
  readonly connections: ParkedConnections | undefined
}

export interface ForkOptions {
  readonly sandboxIds: readonly SandboxId[]
  /** Called as soon as the parent continues, before `onChild`. The parent continues even when children fail. */
  readonly onParent?: (parent: ForkedParent) => void
  /**
   * Called with each child as soon as it runs, in any order. When it throws, or another child fails, the child is
   * destroyed.
   */
  readonly onChild?: (child: Burrow) => void
  /** Limits the restore of the parent and of every child. */
  readonly limitRestore?: LimitRestore
  readonly reseed?: boolean
  readonly signal?: AbortSignal
}

export interface ForkedBurrow {
  /** Complete, but perhaps not on disk yet: see `Engine.syncSnapshot`. */
  readonly snapshot: Snapshot
  /** The burrow in which the parent continues. Absent when `resumeError` says why it does not. */
  readonly parent?: Burrow
  /** In the order of `sandboxIds`. Empty when the parent does not continue. */
  readonly children: readonly Burrow[]
  /**
   * Saved but not resumed: why the parent did not continue. All of it is in the snapshot, and the saved burrow has
   * ended.
   */
  readonly resumeError?: unknown
  /** As in `SavedBurrow`. The parent continues them. */
  readonly connections?: ParkedConnections
}
