import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ServerConfig } from '../config/config.ts'

export function clusterKeyPath({ dataDir, cluster }: ServerConfig): string {
  return cluster.keyFile ?? join(dataDir, 'cluster.key')
}

/** The key of the cluster. `create`: makes the bytes of a new one for the first host. Throws `setup_failed`. */
export function readClusterKey(config: ServerConfig, create?: () => Buffer): Buffer {
  const path = clusterKeyPath(config)
  if (create !== undefined && config.cluster.keyFile === undefined && !existsSync(path))
    writeClusterKey(path, create())
  try {
    return Buffer.from(readFileSync(path, 'latin1').trim(), 'base64')
  } catch (cause) {
    throw new DormouseError('setup_failed', 'The key of the cluster cannot be read.', {
      hint: 'Check `cluster.keyFile` and its permissions.',
      cause,
    })
  }
}

/** Throws when there is one. */
export function writeClusterKey(path: string, key: Uint8Array): void {
  writeFileSync(path, `${Buffer.from(key).toString('base64')}\n`, { mode: 0o600, flag: 'wx' })
}
