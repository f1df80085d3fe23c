import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { machineProblem } from '@dormouse/engine-microvm'
import type { Elsewhere } from '../api/services.ts'
import type { Cluster, ClusterOptions } from '../cluster/cluster.ts'
import { ClusterRows } from '../cluster/cluster-rows.ts'
import { describeHost } from '../cluster/describe-host.ts'
import { ListElsewhere } from '../cluster/list-elsewhere.ts'
import type { Nodes } from '../cluster/nodes.ts'
import { readClusterKey } from '../cluster/read-cluster-key.ts'
import { type Abilities, SnapshotCarrier } from '../cluster/snapshot-carrier.ts'
import { limitSnapshotForms } from '../cluster/snapshot-forms.ts'
import { localUrl } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'
import type { Closing } from '../host/closing.ts'
import type { Log } from '../log.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import { type Database, openDatabase } from '../store/database.ts'
import { clusterMigrations } from '../store/migrations/index.ts'
import type { OpenedSandboxes } from './open-sandboxes.ts'

const ABILITIES_MS = 10_000

export interface OpenCluster {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly opened: OpenedSandboxes
  readonly fence: SharedArrayBuffer
  readonly log: Log
}

export interface OpenedCluster {
  readonly member: Cluster
  readonly nodes: Nodes
  readonly elsewhere: Elsewhere
  readonly rows: ClusterRows
  /** cluster.db. */
  readonly db: Database
  readonly transfer: SnapshotCarrier
}

/** Joins the cluster. Only this loads the client of NATS. Pre: recovery has not run. */
export async function openCluster(options: OpenCluster, closing: Closing): Promise<OpenedCluster> {
  const { config, engine, opened, fence, log } = options
  const first = engine.transferOf('process')
  if (first === undefined)
    throw new DormouseError('host_unsupported', 'A host without CRIU cannot join a cluster.')
  const transfer = new SnapshotCarrier(engine, first, { microvm: machineProblem })
  const [{ adviseOnNats, ClusterKey, connectCluster }, { Cluster }, { ClusterNodes }, { shareKeys }] =
    await Promise.all([
      import('@dormouse/cluster'),
      import('../cluster/cluster.ts'),
      import('../cluster/cluster-nodes.ts'),
      import('../cluster/shared-keys.ts'),
    ])
  const path = join(config.dataDir, 'cluster.db')
  const db = closing.use(openDatabase({ path, migrations: clusterMigrations, synchronous: 'FULL' }))
  const rows = new ClusterRows(db)
  const key = new ClusterKey(readClusterKey(config, () => ClusterKey.create()))
  const { replicas, leaseMs, ...address } = config.cluster
  const connection = closing.use(await connectCluster({ ...address, replicas, key, hostId: rows.hostId }))
  const advice = adviseOnNats(connection.nats.info?.version ?? '', replicas)
  if (advice !== undefined) log.warn({}, advice)
  const { sandboxes } = opened.deps
  const shown: ClusterOptions['shown'] = { url: config.cluster.address ?? '', ssh: undefined }
  const abilities = await followAbilities(transfer, log, closing)
  const describe = describeHost({
    ...{ id: rows.hostId, dataDir: config.dataDir, minFreeDiskBytes: config.minFreeDiskBytes },
    ...{ sandboxes, abilities, forms: transfer.forms, stateFormat: connection.format.newest },
    fetchesBases: transfer.baseTransfer !== undefined,
    address: () => shown.url,
    ssh: () => shown.ssh,
    drain: () => shown.drain,
    holds: () => shown.fetched ?? [],
    isCordoned: () => rows.isCordoned,
  })
  const cluster = closing.use(
    await Cluster.join({
      ...{ connection, rows, describe, shown, leaseMs, replicas, fence, transfer, log },
      ...{ dataDir: config.dataDir, depot: config.cluster },
      deps: opened.deps,
    }),
  )
  limitSnapshotForms(transfer, cluster.hosts)
  closing.use(connection.format.follow(cluster.hosts))
  await openBases({ cluster, transfer, log, maxBytes: config.cluster.cacheBytes }, closing)
  closing.use(await shareKeys(connection, opened.access, log))
  const nodes = new ClusterNodes({ cluster, sandboxes, transfer, log })
  opened.deps.spread = nodes
  return {
    ...{ member: cluster, rows, db, transfer, nodes },
    elsewhere: new ListElsewhere(cluster.directory, (id) => sandboxes.isHere(id)),
  }
}

/** Shares what snapshots stand on with the other hosts. */
async function openBases(
  {
    cluster,
    transfer,
    log,
    maxBytes,
  }: { cluster: Cluster; transfer: SnapshotCarrier; log: Log; maxBytes: number },
  closing: Closing,
): Promise<void> {
  const { SharedBases } = await import('../cluster/shared-bases.ts')
  const { baseTransfer: bases } = transfer
  if (bases !== undefined)
    transfer.bases = closing.use(
      await SharedBases.open({ cluster, depot: cluster.depot, bases, maxBytes, log }),
    )
}

/** What this host can restore. It changes when a template is built. */
async function followAbilities(
  transfer: SnapshotCarrier,
  log: Log,
  closing: Closing,
): Promise<() => Abilities> {
  let abilities = await transfer.abilities()
  const look = async () => {
    abilities = await transfer.abilities()
  }
  const timer = setInterval(
    () => void look().catch((err: unknown) => log.warn({ err }, 'what this host can restore is not known')),
    ABILITIES_MS,
  ).unref()
  closing.use({ [Symbol.dispose]: () => clearInterval(timer) })
  return () => abilities
}

/** What a server outside a cluster says of itself. */
export function describeLone({ config, sandboxes }: { config: ServerConfig; sandboxes: Sandboxes }) {
  return describeHost({
    ...{ id: 'host', sandboxes, abilities: () => ({ abilities: undefined }) },
    ...{ dataDir: config.dataDir, minFreeDiskBytes: config.minFreeDiskBytes },
    address: () => localUrl(config, config.port),
    isCordoned: () => false,
  })
}
