import { existsSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import type { ClusterConnection } from '@dormouse/cluster'
import { DormouseError } from '@dormouse/contracts'
import { KeyDraft } from '../cluster/key-draft.ts'
import { clusterKeyPath, readClusterKey } from '../cluster/read-cluster-key.ts'
import type { ServerConfig } from '../config/config.ts'

/** What an operator does with the whole cluster, beside a host or without one. */
export const clusterMaintenance = {
  /** Writes the state of the cluster to a file that does not exist yet. */
  backUp: (config: ServerConfig, path: string) =>
    withConnection(config, async (connection) => {
      const { backUpCluster } = await import('@dormouse/cluster')
      return await backUpCluster(connection, path)
    }),
  /** Brings the state of a file into NATS servers that have none. Pre: no host is running. */
  restore: (config: ServerConfig, path: string) =>
    withConnection(config, async (connection) => {
      const { restoreCluster } = await import('@dormouse/cluster')
      return await restoreCluster(connection, path)
    }),
  /** A token with which one more host can join, within an hour. */
  createToken: (config: ServerConfig) =>
    withConnection(config, async (connection) => {
      const { createJoinToken } = await import('@dormouse/cluster')
      const { servers, replicas } = config.cluster
      return await createJoinToken(connection, { clusterKey: readClusterKey(config), servers, replicas })
    }),
  /** Writes the cluster key of a token into the data directory. Returns the addresses of the NATS servers. */
  join: async (config: ServerConfig, token: string): Promise<readonly string[]> => {
    const path = clusterKeyPath(config)
    if (existsSync(path))
      throw new DormouseError('conflict', 'This host has the key of a cluster already.', {
        hint: 'To join another cluster, start with an empty data directory.',
      })
    const { useJoinToken } = await import('@dormouse/cluster')
    const { credentialsFile, caFile } = config.cluster
    mkdirSync(dirname(path), { recursive: true, mode: 0o711 })
    // A token works once: there must be room for the key before it is used.
    const draft = new KeyDraft(path)
    try {
      const { servers, clusterKey } = await useJoinToken(token, { credentialsFile, caFile })
      draft.write(clusterKey)
      return servers
    } finally {
      draft[Symbol.dispose]()
    }
  },
}

async function withConnection<Value>(
  config: ServerConfig,
  work: (connection: ClusterConnection) => Promise<Value>,
): Promise<Value> {
  const { servers, credentialsFile, caFile, replicas } = config.cluster
  if (servers.length === 0)
    throw new DormouseError('invalid_argument', 'The addresses of the NATS servers are missing.', {
      hint: 'Give them with --cluster, or set `cluster.servers`.',
    })
  const { ClusterKey, connectCluster, JetStreamStore, JobStream } = await import('@dormouse/cluster')
  await using connection = await connectCluster({
    ...{ servers, credentialsFile, caFile, replicas, hostId: 'maintenance' },
    key: new ClusterKey(readClusterKey(config)),
  })
  // A cluster that has had no host yet has no depot and no jobs.
  await JetStreamStore.open({ ...connection, replicas })
  await JobStream.open({ ...connection, replicas })
  return await work(connection)
}
