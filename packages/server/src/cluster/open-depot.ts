import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  ChunkCache,
  type ClusterConnection,
  Depot,
  JetStreamStore,
  type ObjectStore,
  S3Store,
} from '@dormouse/cluster'
import { DormouseError } from '@dormouse/contracts'
import { z } from 'zod'

/** Where the depot is when it is not in NATS. */
export interface S3Settings {
  readonly s3Url?: string | undefined
  readonly s3Region: string
  readonly s3CredentialsFile?: string | undefined
}

export interface OpenDepot {
  readonly connection: ClusterConnection
  readonly replicas: number
  readonly dataDir: string
  readonly depot: S3Settings & { readonly cacheBytes: number }
}

const credentialsSchema = z.strictObject({ accessKeyId: z.string(), secretAccessKey: z.string() })

/** The depot of the cluster, with what this host has read of it. */
export async function openDepot({ connection, replicas, dataDir, depot }: OpenDepot): Promise<Depot> {
  const { jetstream, manager, key } = connection
  const openStore = async (): Promise<ObjectStore> =>
    (await openS3(depot)) ?? (await JetStreamStore.open({ jetstream, manager, replicas }))
  const openCache = () => ChunkCache.open(join(dataDir, 'depot-cache'), { maxBytes: depot.cacheBytes })
  const [store, cache] = await Promise.all([openStore(), openCache()])
  const opened = new Depot({ store, key, cache })
  opened.prepare()
  return opened
}

async function openS3({ s3Url, s3Region, s3CredentialsFile }: S3Settings): Promise<S3Store | undefined> {
  if (s3Url === undefined) return undefined
  try {
    const found: unknown = JSON.parse(await readFile(s3CredentialsFile ?? '', 'utf8'))
    return new S3Store({ url: s3Url, region: s3Region, ...credentialsSchema.parse(found) })
  } catch (cause) {
    throw new DormouseError('setup_failed', 'The credentials of the S3 store cannot be read.', {
      hint: '`cluster.s3CredentialsFile` must name a JSON file: {"accessKeyId": "…", "secretAccessKey": "…"}.',
      cause,
    })
  }
}
