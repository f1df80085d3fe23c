import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ServerConfig } from '../config/config.ts'
import { writePrivateFile } from '../data-directory/write-private-file.ts'

export function clusterKeyPath({ dataDir, cluster }: ServerConfig): string {
  return cluster.keyFile ?? join(dataDir, 'cluster.key')
}

/** The key of the cluster. `create`: makes the bytes of a new one for the first host. Throws `setup_failed`. */
export function readClusterKey(config: ServerConfig, create?: () => Buffer): Buffer {
  const path = clusterKeyPath(config)
  if (create !== undefined && config.cluster.keyFile === undefined && !existsSync(path))
    writePrivateFile(path, encodeKey(create()))
  try {
    return Buffer.from(readFileSync(path, 'latin1').trim(), 'base64')
  } catch (cause) {
    throw new DormouseError('setup_failed', 'The key of the cluster cannot be read.', {
      hint: `Name its file with --cluster-key, or look at the permissions of ${basename(path)} in the data directory.`,
      cause,
    })
  }
}

export function encodeKey(key: Uint8Array): string {
  return `${Buffer.from(key).toString('base64')}\n`
}
