import type { Sandbox } from './sandbox.ts'
import type { SandboxReader } from './sandbox-reader.ts'

/** The public methods of a sandbox, without its private state: tests of the API implement them. */
export type SandboxHandle = Pick<
  Sandbox,
  | 'id'
  | 'view'
  | 'runningBurrow'
  | 'use'
  | 'guestNow'
  | 'attach'
  | 'attachRun'
  | 'explainProcess'
  | 'hold'
  | 'metrics'
  | 'standby'
  | 'resume'
  | 'fork'
  | 'snapshot'
  | 'rollback'
  | 'promote'
  | 'update'
  | 'delete'
  | 'deleteSoon'
  | 'network'
  | 'why'
  | 'ledger'
> & { readonly reader: Pick<SandboxReader, 'variables' | 'files'> }
