import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { agreeOn, ClusterKey, connectCluster } from '@dormouse/cluster'
import { readClusterKey } from '../cluster/read-cluster-key.ts'
import type { ServerConfig } from '../config/config.ts'
import { writePrivateFile } from '../data-directory/write-private-file.ts'
import { EDGE_FILE, isLasting, openAuthority } from '../secrets/open-authority.ts'

/**
 * Makes all hosts of the cluster use one authority: programs in a sandbox that has moved trust the edge of its new host
 * without reading their certificates again. Pre: the network is not open.
 */
export async function shareAuthority(config: ServerConfig): Promise<void> {
  const path = join(config.dataDir, EDGE_FILE)
  openAuthority(path)
  const mine = readFileSync(path, 'utf8')
  const key = new ClusterKey(readClusterKey(config, () => ClusterKey.create()))
  const { servers, credentialsFile, caFile, replicas } = config.cluster
  await using connection = await connectCluster({
    ...{ servers, credentialsFile, caFile, replicas, key, hostId: 'starting' },
  })
  const agreed = await agreeOn({ bucket: connection.keys, key }, 'authority', { mine, isGood: isLasting })
  if (agreed !== mine) writePrivateFile(path, agreed)
}
