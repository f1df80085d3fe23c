import type { Hosts } from '@dormouse/cluster'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

/** An upgrade that is taken back within this time finds nothing on disk that the version before cannot restore. */
const OLDER_HOST_MS = 3600 * 1000

/** Lets upkeep make a form of snapshots only when every host seen lately can restore it. */
export function limitSnapshotForms(transfer: SnapshotCarrier, hosts: Pick<Hosts, 'seenWithin'>): void {
  transfer.limitForms((form) =>
    hosts.seenWithin(OLDER_HOST_MS).every(({ forms }) => forms?.includes(form) === true),
  )
}
