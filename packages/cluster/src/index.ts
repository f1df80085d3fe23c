export { agreeOn } from './agree-on.ts'
export { type BackupTotal, backUpCluster, restoreCluster } from './backup.ts'
export { type BaseRecord, BaseRecords } from './base-records.ts'
export { ChunkCache } from './chunk-cache.ts'
export { Claims } from './claims.ts'
export { ClusterKey } from './cluster-key.ts'
export { type Collected, collectDepot, type DepotLists } from './collect-depot.ts'
export { type ClusterAddress, type ClusterConnection, connectCluster } from './connect-cluster.ts'
export { CHUNK_BYTES, DAY_MS, Depot, type Stored } from './depot.ts'
export {
  Directory,
  type DirectoryEntry,
  type EntryKind,
  type Located,
  type Replica,
} from './directory.ts'
export { type ClusterEvent, EventLog } from './event-log.ts'
export { encodeHost, type HostDescription, type HostRecord } from './host-record.ts'
export { type HostState, Hosts } from './hosts.ts'
export { JetStreamStore } from './jetstream-store.ts'
export { type JobMessage, JobStream } from './job-stream.ts'
export { createJoinToken, useJoinToken } from './join-token.ts'
export { Lease } from './lease.ts'
export { Names } from './names.ts'
export { adviseOnNats } from './nats-version.ts'
export type { ObjectStore, StoredObject } from './object-store.ts'
export { type Candidate, chooseHost, diskProblemOf, type PlacementRequest } from './placement.ts'
export { S3Store } from './s3-store.ts'
export { SERVICE_ENTRIES, type ServiceEntry } from './service-entry.ts'
export { SharedRecords } from './shared-records.ts'
export { type SnapshotRecord, SnapshotRecords } from './snapshot-records.ts'
export { STATE_FORMAT, StateFormat } from './state-format.ts'
export { type StateRecord, StateRecords } from './state-records.ts'
