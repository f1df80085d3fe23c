import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Claims } from '@dormouse/cluster'
import type { SnapshotId } from '@dormouse/contracts'
import type { AskOthers } from '../api/cluster/merge-lists.ts'
import type { Cluster } from '../cluster/cluster.ts'
import { ClusterJobs } from '../cluster/cluster-jobs.ts'
import type { ClusterRows } from '../cluster/cluster-rows.ts'
import { ClusterSchedules } from '../cluster/cluster-schedules.ts'
import { ClusterServices } from '../cluster/cluster-services.ts'
import { CreatePlacement } from '../cluster/create-placement.ts'
import type { Row, SharedTable } from '../cluster/outbox.ts'
import { Peers } from '../cluster/peers.ts'
import { shareEvents } from '../cluster/shared-events.ts'
import { SharedFleet } from '../cluster/shared-fleet.ts'
import { SharedSnapshots } from '../cluster/shared-snapshots.ts'
import { SharedState } from '../cluster/shared-state.ts'
import { SharedUsage } from '../cluster/shared-usage.ts'
import type { SnapshotCarrier } from '../cluster/snapshot-carrier.ts'
import type { ServerConfig } from '../config/config.ts'
import { clearServiceLog } from '../deployments/service-log.ts'
import type { EventFeed, RelayedEvent } from '../fleet/event-feed.ts'
import type { Fleet } from '../fleet/fleet.ts'
import type { Closing } from '../host/closing.ts'
import type { Log } from '../log.ts'
import type { ClusterNumbers, ServerMetrics } from '../metrics/server-metrics.ts'
import { dropSnapshot } from '../sandbox/drop-snapshot.ts'
import { SealedValues } from '../secrets/sealed-values.ts'
import { SshElsewhere } from '../ssh/ssh-elsewhere.ts'
import type { SshService } from '../ssh/ssh-service.ts'
import type { Database } from '../store/database.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { BUILT_IN_OWNER } from '../templates/built-in-descriptions.ts'
import type { UsageService } from '../usage/usage-service.ts'
import type { WebhookService } from '../webhooks/webhook-service.ts'
import type { OpenedSandboxes } from './open-sandboxes.ts'
import type { Stores } from './open-stores.ts'

export interface ShareState {
  readonly config: ServerConfig
  readonly stores: Stores
  readonly opened: OpenedSandboxes
  readonly cluster: Cluster
  readonly rows: ClusterRows
  readonly clusterDb: Database
  readonly transfer: SnapshotCarrier
  readonly ssh: SshService
  readonly webhooks: WebhookService
  readonly usage: UsageService
  readonly feed: EventFeed
  readonly fleet: Fleet
  readonly metrics: ServerMetrics
  readonly log: Log
}

export interface SharedServices {
  readonly state: SharedState
  readonly peers: Peers
  readonly usage: SharedUsage
  readonly schedules: ClusterSchedules
  readonly services: ClusterServices
  readonly jobs: ClusterJobs
  readonly placement: CreatePlacement
  readonly ssh: SshElsewhere
  /** Resolves when what this host has changed can be known to the others. */
  readonly flush: () => Promise<void>
  readonly askOthers: AskOthers
}

/** Makes the state that is not of one sandbox the state of the whole cluster. */
export async function shareState(options: ShareState, closing: Closing): Promise<SharedServices> {
  const { config, stores, opened, cluster, rows, clusterDb, feed, usage, log } = options
  const { connection } = cluster
  const { hostId } = rows
  const { replicas, caFile } = config.cluster
  cluster.trust = caFile === undefined ? {} : { ca: [readFileSync(caFile, 'utf8')] }
  const peers = closing.use(
    new Peers({ hosts: cluster.hosts, hostId, key: connection.key, trust: cluster.trust }),
  )
  opened.access.verifyHop = (token) => peers.verify(token)
  opened.quotas.elsewhere = (owner) => rowsElsewhere(options, owner)
  const state = closing.use(
    await SharedState.open({
      ...{ connection, rows, log, tables: sharedTables(options), isHeld: () => cluster.isHeld },
      values: SealedValues.open(join(config.dataDir, 'secrets.key')),
    }),
  )
  const onOthers = (event: RelayedEvent) => options.fleet.heard(event)
  closing.use(await shareEvents({ connection, feed, hostId, replicas, onOthers, log }))
  const snapshots = closing.use(await openSnapshots(options))
  stores.templates.bring = (id) => snapshots.bringTemplate(id)
  opened.deps.elsewhere = snapshots
  const services = closing.use(await openServices(options, { peers, snapshots }))
  cluster.upkeep.snapshotLists = () => snapshots.readLists()
  cluster.upkeep.snapshotNeeds = () => snapshots.needs()
  const nowMs = stores.clock.wallMs
  const shared = new SharedUsage({
    ...{ local: usage, rows: stores.usage, db: clusterDb, peers, hostId, nowMs, log },
  })
  options.fleet.elsewhere = new SharedFleet({
    ...{ directory: cluster.directory, peers, snapshots, usage: shared },
    isHere: (id) => opened.deps.sandboxes.isHere(id),
  })
  options.metrics.addCluster(() => clusterNumbers(cluster))
  return {
    ...{ state, peers, usage: closing.use(shared), services, schedules: openSchedules(options, services) },
    jobs: closing.use(await openJobs(options, snapshots)),
    placement: new CreatePlacement({
      ...{ cluster, peers, snapshots, catalog: stores.templates, transfer: options.transfer },
    }),
    ssh: new SshElsewhere({ cluster, peers, sandboxes: opened.deps.sandboxes, access: opened.access }),
    flush: async () => {
      await Promise.all([services.flush(), state.flush()])
    },
    askOthers: async (path, keyId) => {
      const asked = peers.alive().map((host) => peers.get(host, path, keyId).catch(() => undefined))
      return (await Promise.all(asked)).filter((answer) => answer !== undefined)
    },
  }
}

async function openServices(
  { config, stores, cluster, transfer, log }: ShareState,
  parts: { peers: Peers; snapshots: SharedSnapshots },
): Promise<ClusterServices> {
  const { epoch } = cluster.owned
  const services = await ClusterServices.open({
    ...{ ...parts, cluster, transfer, rows: stores.services, leaseMs: config.cluster.leaseMs, log },
    clearLog: (id) => clearServiceLog(stores.journalDb, id),
  })
  cluster.services = services
  // A new lease meanwhile has found no services.
  if (cluster.owned.epoch !== epoch) await services.claimAll()
  cluster.upkeep.marked.push(services.directory)
  return services
}

async function openJobs(
  { config, stores, cluster, log }: ShareState,
  snapshots: SharedSnapshots,
): Promise<ClusterJobs> {
  const { replicas, leaseMs } = config.cluster
  return await ClusterJobs.open({
    ...{ connection: cluster.connection, replicas, leaseMs, cluster, log },
    ...{ db: stores.jobDb, rows: stores.jobs, tasks: stores.tasks },
    hasSnapshot: (id) => snapshots.problemOf(id) === undefined,
    hasVolume: (name) => stores.volumes.named(name).length > 0,
  })
}

function openSchedules({ cluster, opened }: ShareState, services: ClusterServices): ClusterSchedules {
  const { connection, hostId } = cluster
  const claims = new Claims({ bucket: connection.claims, key: connection.key, hostId })
  return new ClusterSchedules({ cluster, claims, services, sandboxes: opened.deps.sandboxes })
}

function clusterNumbers({ hosts, directory }: Cluster): ClusterNumbers {
  const nodes = new Map<string, number>()
  const sandboxes = new Map<string, number>()
  const count = (counts: Map<string, number>, state: string) =>
    counts.set(state, (counts.get(state) ?? 0) + 1)
  for (const { id } of hosts.all()) count(nodes, hosts.stateOf(id))
  let unreplicated = 0
  for (const { entry } of directory.all()) {
    count(sandboxes, entry.state)
    if (entry.state === 'standby' && entry.replica?.snapshotId !== entry.head) unreplicated += 1
  }
  return { nodes, sandboxes, unreplicated }
}

async function openSnapshots(options: ShareState): Promise<SharedSnapshots> {
  const { stores, opened, cluster, transfer, clusterDb, rows } = options
  return await SharedSnapshots.open({
    ...{ cluster, catalog: stores.templates, depot: cluster.depot, transfer, clusterDb },
    ...{ stateId: rows.stateId, deps: opened.deps, maxBytes: options.config.cluster.cacheBytes },
  })
}

/** Sandboxes of this owner on other hosts, as the directory knows them. */
function* rowsElsewhere({ cluster, opened }: ShareState, owner: string): Generator<SandboxRow> {
  for (const { id, entry } of cluster.directory.all()) {
    if (entry.owner !== owner || opened.deps.sandboxes.isHere(id)) continue
    yield { ...(entry.row as SandboxRow), state: entry.state as SandboxRow['state'] }
  }
}

function sharedTables(options: ShareState): SharedTable[] {
  const { stores, opened, ssh, webhooks, clusterDb } = options
  const { db, jobDb } = stores
  return [
    {
      ...{ db, table: 'edge_secrets', key: ['owner', 'name'], sealed: ['sealed_value'] },
      onChange: ({ before }) => {
        if (before !== undefined) void opened.secrets.refresh(String(before['owner']), String(before['name']))
      },
    },
    { db, table: 'ssh_keys', key: ['owner', 'name'], onChange: () => ssh.reload() },
    { db, table: 'sessions', key: ['token_sha256'] },
    {
      ...{ db, table: 'templates', key: ['owner', 'name'], where: isTemplateShared },
      onChange: ({ before }) => {
        stores.templates.reload()
        dropFormer(options, before)
      },
    },
    {
      ...{ db, table: 'template_materials', key: ['owner', 'name'] },
      where: (row) => `${row}owner <> '${BUILT_IN_OWNER}'`,
    },
    { db: jobDb, table: 'schedules', key: ['owner', 'name'] },
    { db: jobDb, table: 'schedule_firings', key: ['schedule_id', 'at'] },
    {
      ...{ db: jobDb, table: 'webhooks', key: ['owner', 'name'], sealed: ['secret', 'former_secret'] },
      onChange: () => webhooks.reload(),
    },
    { db: clusterDb, table: 'usage_hours', key: ['host', 'hour'] },
  ]
}

/** Every host builds the built-in templates itself, and a build runs on one host. */
function isTemplateShared(row: string): string {
  return `${row}owner <> '${BUILT_IN_OWNER}' AND ${row}state <> 'building'`
}

/** The snapshots of a template that another host has deleted or replaced. */
function dropFormer({ opened }: ShareState, before: Row | undefined): void {
  for (const id of [before?.['snapshot_id'], before?.['files_snapshot_id']])
    if (typeof id === 'string') void dropSnapshot(opened.deps, id as SnapshotId)
}
