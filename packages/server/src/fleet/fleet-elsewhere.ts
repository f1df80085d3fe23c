import type { ActivityAnswer, OverviewAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'

/** A sandbox of another host. */
export interface RowElsewhere {
  readonly row: SandboxRow
  /** What it was forked from, and that in turn. */
  readonly ancestors: readonly string[]
}

export type Counts = Pick<OverviewAnswer, 'running' | 'frozen' | 'stored' | 'failed'>

/** The part of an overview that is added up over the hosts. */
export type HostNumbers = Counts & Pick<OverviewAnswer, 'memoryHeldBytes' | 'memorySavedBytes'>

/** What the other hosts of a cluster know of their sandboxes. */
export interface FleetElsewhere {
  /** Those that the caller may see. */
  rows(caller: Caller): Iterable<RowElsewhere>
  /** Kept snapshots of a sandbox that are not on this host. Without `owner`: of all owners. */
  snapshots(sandboxId: string, owner: string | undefined): readonly SnapshotRow[]
  /** Of the hosts that answer; of the others, how many sandboxes they have is known. */
  numbers(caller: Caller): Promise<readonly HostNumbers[]>
  activity(ids: readonly string[], caller: Caller): Promise<ActivityAnswer['items']>
  cost(caller: Caller): Promise<OverviewAnswer['cost']>
}
