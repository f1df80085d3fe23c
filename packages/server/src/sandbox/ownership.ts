import type { SandboxId } from '@dormouse/contracts'
import type { SandboxRow } from '../store/sandbox-rows.ts'

/** What a host of a cluster must ask before it acts for a sandbox. A server without a cluster owns everything. */
export interface Ownership {
  /** Throws `cluster_unavailable` or `host_unavailable` when this host must not act for the sandbox. */
  require(id: SandboxId): void
  /** The sandbox and its name are this host's. Throws `name_taken`, with the holder of the name in `details`. */
  claim(row: SandboxRow): Promise<void>
  /** The name is this sandbox's on all hosts. Throws `name_taken`. Call `returnName` if the sandbox does not get it. */
  claimName(row: SandboxRow, name: string): Promise<void>
  returnName(row: SandboxRow, name: string): Promise<void>
  /** Post: a host that continues the sandbox knows its newest row. Throws `cluster_unavailable`. */
  published(id: SandboxId): Promise<void>
  /** The sandbox is about to be deleted: no host wakes it again. */
  release(row: SandboxRow): Promise<void>
  /** Whether its head is in the depot, so that other hosts can wake it. */
  isReplicated(id: SandboxId): boolean
}
