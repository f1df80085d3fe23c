import type { SnapshotId } from '@dormouse/contracts'
import type { Burrow, RestoreOptions } from './engine.ts'
import type { ProgramSettings } from './engine-images.ts'
import type { Guest } from './guest.ts'

/** The files of a snapshot as directories of the host, for an engine that makes its own kind of disk from them. */
export interface FileTree {
  /** Names the content: equal keys mean equal files. */
  readonly key: string
  /** The template of the host below it. */
  readonly template: string
  /** Top first: what is in one hides what is below. A removed file is a character device 0:0. */
  readonly directories: readonly string[]
  /** The host uid of root inside, and how many uids follow it. */
  readonly uidBase: number
  readonly uidCount: number
  /** Modules that the template wants imported ahead of need. */
  readonly preload: readonly string[]
  /** Whether the agent needs a Python of its own: files of an image may have none. */
  readonly isImage: boolean
  /** Of an image: how programs start. */
  readonly image?: ProgramSettings | undefined
}

/** What happens in the first burrow of some files. It is saved afterwards, and later ones start from that snapshot. */
export interface Preparation {
  /** Equal keys prepare equal files equally. */
  readonly key: string
  /** An error ends the burrow, and the caller who waited for it gets the error. It has no open gate. */
  prepare(guest: Guest): Promise<void>
}

/** How one engine starts sandboxes from files that another one has. */
export interface EngineFiles {
  /** The files stay until `use` has settled. */
  lendFiles?<Value>(snapshotId: SnapshotId, use: (tree: FileTree) => Promise<Value>): Promise<Value>
  /** Makes a burrow that has these files. The first one of a tree takes as long as a boot. */
  bootFiles?(tree: FileTree, options: RestoreOptions): Promise<Burrow>
}
