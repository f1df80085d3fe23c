import type { SandboxId } from '@dormouse/contracts'
import type { Burrow, Snapshot } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { CreateSandbox, SandboxOrigin, SandboxRow } from '../store/sandbox-rows.ts'

/** What a build needs of a sandbox. */
export interface BuildSandbox {
  readonly row: SandboxRow
  readonly burrow: Burrow | undefined
  readonly isDeleted: boolean
  /** Settles when the burrow has its network and its secrets. Undefined when it has both. */
  preparing(burrow: Burrow): Promise<unknown> | undefined
  /** Resolves when everything that happened to the sandbox is recorded. */
  settle(): Promise<void>
  /** Saves the sandbox and ends it. Only the snapshot is left. */
  finish(kind: Snapshot['kind']): Promise<Snapshot>
  delete(): Promise<void>
}

export interface BuildSandboxes {
  create(
    request: CreateSandbox,
    caller: Caller,
    signal: AbortSignal,
    origin: SandboxOrigin,
  ): Promise<{ readonly sandbox: BuildSandbox }>
  find(id: SandboxId): BuildSandbox | undefined
}
