import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { Cluster } from '../cluster/cluster.ts'
import type { ServerConfig } from '../config/config.ts'
import type { Closing } from '../host/closing.ts'
import type { Log } from '../log.ts'
import { openDatabase } from '../store/database.ts'
import { clusterMigrations } from '../store/migrations/index.ts'
import type { OpenedSandboxes } from './open-sandboxes.ts'

export interface OpenCluster {
  readonly config: ServerConfig
  readonly engine: Engine
  readonly opened: OpenedSandboxes
  readonly fence: SharedArrayBuffer
  readonly log: Log
}

/** Joins the cluster. Only this loads the client of NATS. Pre: recovery has not run. */
export async function openCluster(options: OpenCluster, closing: Closing): Promise<Cluster> {
  const { config, engine, opened, fence, log } = options
  const { transfer } = engine
  if (transfer === undefined)
    throw new DormouseError('host_unsupported', 'A host without CRIU cannot join a cluster.')
  const [{ ClusterKey, connectCluster }, { Cluster }, { ClusterRows }, { describeHost }, { shareKeys }] =
    await Promise.all([
      import('@dormouse/cluster'),
      import('../cluster/cluster.ts'),
      import('../cluster/cluster-rows.ts'),
      import('../cluster/describe-host.ts'),
      import('../cluster/shared-keys.ts'),
    ])
  const db = closing.use(
    openDatabase({
      path: join(config.dataDir, 'cluster.db'),
      migrations: clusterMigrations,
      synchronous: 'FULL',
    }),
  )
  const rows = new ClusterRows(db)
  const key = new ClusterKey(readKey(config, () => ClusterKey.create()))
  const { servers, credentialsFile, caFile, replicas, leaseMs } = config.cluster
  const connection = await connectCluster({ servers, credentialsFile, caFile, replicas, key, hostId: rows.hostId })
  const { sandboxes } = opened.deps
  const address = { url: config.cluster.address ?? '' }
  const describe = describeHost({
    ...{ id: rows.hostId, dataDir: config.dataDir, sandboxes, abilities: await transfer.abilities() },
    address: () => address.url,
    isCordoned: () => rows.isCordoned,
  })
  const cluster = closing.use(
    await Cluster.join({
      ...{ connection, rows, describe, address, leaseMs, replicas, fence, transfer, log },
      deps: opened.deps,
    }),
  )
  closing.use(await shareKeys(connection, opened.access, log))
  return cluster
}

function readKey({ dataDir, cluster }: ServerConfig, create: () => Buffer): Buffer {
  const path = cluster.keyFile ?? join(dataDir, 'cluster.key')
  if (cluster.keyFile === undefined && !existsSync(path))
    writeFileSync(path, `${create().toString('base64')}\n`, { mode: 0o600, flag: 'wx' })
  try {
    return Buffer.from(readFileSync(path, 'latin1').trim(), 'base64')
  } catch (cause) {
    throw new DormouseError('setup_failed', 'The key of the cluster cannot be read.', {
      hint: 'Check `cluster.keyFile` and its permissions.',
      cause,
    })
  }
}
