import { z } from 'zod'
import { optional, setting } from '../setting.ts'
import { absolutePath } from '../value-schemas.ts'

const SERVERS_MAX = 16
const LEASE_MIN_MS = 1_000
const LEASE_MAX_MS = 5 * 60_000
const REPLICAS_MAX = 5

const natsUrl = z
  .string()
  .regex(/^(?:nats|tls):\/\/[^\s/]+$/, 'must be an address such as nats://10.0.0.1:4222')
const hostUrl = z
  .string()
  .regex(/^https?:\/\/[^\s/]+$/, 'must be an address such as https://host1.example.com:7070')

const storeUrl = z
  .string()
  .regex(
    /^https?:\/\/[^\s/]+\/[^\s?#]+$/,
    'must be the address of a bucket such as https://s3.example.com/bucket',
  )

/** Several hosts that share their sandboxes. */
export const clusterSettings = {
  cluster: {
    servers: setting(z.array(natsUrl).max(SERVERS_MAX), [], {
      env: 'DORMOUSE_CLUSTER',
      flag: '--cluster',
      argument: 'URLS',
      summary: 'Join the cluster at these NATS servers ([guide](guides/cluster.md)).',
      details:
        'Separate several with commas. `tls://` encrypts. The servers need JetStream. Without this setting the server ' +
        'is alone and uses no NATS.',
    }),
    address: optional(hostUrl, {
      env: 'DORMOUSE_CLUSTER_ADDRESS',
      flag: '--cluster-address',
      argument: 'URL',
      summary: 'Where the other hosts of the cluster reach this one.',
      details: 'Without it, the address that the server listens on.',
    }),
    credentialsFile: optional(absolutePath, {
      env: 'DORMOUSE_CLUSTER_CREDENTIALS',
      summary: 'A credentials file (`.creds`) of NATS.',
    }),
    caFile: optional(absolutePath, {
      env: 'DORMOUSE_CLUSTER_CA',
      summary: 'Certificates, PEM, that sign those of the NATS servers and of the other hosts.',
      details: 'Without it, those that the operating system trusts.',
    }),
    keyFile: optional(absolutePath, {
      env: 'DORMOUSE_CLUSTER_KEY',
      flag: '--cluster-key',
      argument: 'FILE',
      summary: 'The key that all hosts of the cluster share, as a file.',
      details:
        'What hosts keep in NATS is encrypted with it. Without this setting it is `cluster.key` in the data directory; ' +
        'the first host makes it, and the others need a copy.',
    }),
    replicas: setting(z.int().min(1).max(REPLICAS_MAX), 1, {
      env: 'DORMOUSE_CLUSTER_REPLICAS',
      summary: 'How many NATS servers hold a copy of everything.',
      details: 'Use 3 with three NATS servers. All hosts need the same value.',
    }),
    leaseMs: setting(z.int().min(LEASE_MIN_MS).max(LEASE_MAX_MS), 10_000, {
      env: 'DORMOUSE_CLUSTER_LEASE_MS',
      summary: 'How long a host that does not answer keeps its sandboxes.',
      details:
        'After four fifths of this time without NATS a host stops what its sandboxes do outside. All hosts need the same ' +
        'value.',
    }),
    s3Url: optional(storeUrl, {
      env: 'DORMOUSE_CLUSTER_S3',
      flag: '--cluster-s3',
      argument: 'URL',
      summary: 'Keep the depot in this bucket of an S3-compatible store, instead of in NATS.',
      details: '`https://s3.example.com/bucket`, or a path below it. All hosts need the same value.',
    }),
    s3Region: setting(z.string().min(1).max(100), 'us-east-1', {
      env: 'DORMOUSE_CLUSTER_S3_REGION',
      summary: 'The region that requests to the S3-compatible store are signed for.',
    }),
    s3CredentialsFile: optional(absolutePath, {
      env: 'DORMOUSE_CLUSTER_S3_CREDENTIALS',
      summary: 'The credentials of the S3-compatible store: JSON with `accessKeyId` and `secretAccessKey`.',
    }),
    cacheBytes: setting(z.int().nonnegative(), 8 * 1024 ** 3, {
      env: 'DORMOUSE_CLUSTER_CACHE_BYTES',
      summary:
        'How much of the depot a host keeps on its own disk: of chunks, as much of kept snapshots, and as much of builds.',
      details: 'What was used least recently goes first. 0 keeps nothing.',
    }),
  },
}
