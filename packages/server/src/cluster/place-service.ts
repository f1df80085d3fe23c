import { chooseHost, type HostRecord, type Located, type ServiceEntry } from '@dormouse/cluster'
import { DormouseError } from '@dormouse/contracts'
import type { Cluster } from './cluster.ts'
import { stateIn } from './service-entries.ts'
import type { SharedSnapshots } from './shared-snapshots.ts'
import type { SnapshotCarrier } from './snapshot-carrier.ts'

export interface PlaceService {
  readonly cluster: Cluster
  readonly snapshots: SharedSnapshots
  readonly transfer: SnapshotCarrier
}

/**
 * The host that continues a service of a lost host; undefined: this one. Throws `host_unavailable` when no host has, or
 * can restore, the snapshot of the version that serves.
 */
export function placeService(
  { cluster, snapshots, transfer }: PlaceService,
  { entry }: Located<ServiceEntry>,
  isCandidate: (hostId: string) => boolean = () => true,
): HostRecord | undefined {
  const { service, versions } = stateIn(entry)
  const current = versions.find(({ version }) => version === service.current)
  if (current?.ready === undefined) return undefined
  const { snapshotId } = current.ready
  const record = snapshots.recordOf(snapshotId)
  if (record === undefined) throw notUploaded(entry, current.plan.volumes.length > 0)
  const alive = cluster.hosts.all().filter(({ id }) => cluster.isAlive(id) && isCandidate(id))
  const { chosen, candidates } = chooseHost(alive, {
    memoryBytes: current.plan.limits?.memoryBytes ?? 0,
    preferred: cluster.hostId,
    isNear: ({ holds }) => holds?.includes(snapshotId) === true,
    arrivingBytes: (host) => snapshots.arrivingBytes(snapshotId, host),
    problemOf: (host) => transfer.problemOf(record.needs, host),
  })
  if (chosen !== undefined) return chosen.id === cluster.hostId ? undefined : chosen
  const reasons = candidates.map(({ record: { id }, problem }) => `${id}: ${problem}`)
  throw new DormouseError('host_unavailable', `No host can continue the service. ${reasons.join('; ')}.`, {
    details: { hosts: candidates.map(({ record: { id }, problem }) => ({ id, problem })) },
  })
}

function notUploaded({ host, name }: ServiceEntry, hasVolumes: boolean): DormouseError {
  const why = hasVolumes ? 'it uses volumes of that host' : 'the snapshot of its version is not in the depot'
  return new DormouseError(
    'host_unavailable',
    `The service "${name}" is on host ${host}, which does not answer, and ${why}.`,
    {
      hint: 'Start that host again, or delete the service and deploy it on another host.',
      details: { host },
    },
  )
}
