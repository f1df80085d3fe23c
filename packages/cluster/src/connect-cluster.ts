import { access, constants } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { type KV, Kvm } from '@nats-io/kv'
import {
  connect,
  credsAuthenticator,
  errors,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node'
import type { ClusterKey } from './cluster-key.ts'
import { natsCredentials } from './nats-credentials.ts'
import { StateFormat } from './state-format.ts'

export interface ClusterAddress {
  /** `nats://host:port`; with `tls://`, the connection is encrypted. */
  readonly servers: readonly string[]
  /** A `.creds` file of NATS. */
  readonly credentialsFile?: string | undefined
  /** Certificates that sign the certificates of the NATS servers. */
  readonly caFile?: string | undefined
  /** How many NATS servers hold a copy of everything. */
  readonly replicas: number
}

export interface ConnectCluster extends ClusterAddress {
  readonly key: ClusterKey
  /** How NATS shows this connection. */
  readonly hostId: string
  /** The newest format of the state that is read. Tests try newer ones. */
  readonly newestFormat?: number
}

/** One connection to the NATS servers, with the buckets of the cluster. */
export interface ClusterConnection extends AsyncDisposable {
  readonly nats: NatsConnection
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  readonly key: ClusterKey
  /** Of what the hosts keep in NATS. */
  readonly format: StateFormat
  /** Host records: the leases. */
  readonly hosts: KV
  /** Which host owns which sandbox. */
  readonly directory: KV
  /** Which sandbox has which name. */
  readonly names: KV
  /** API keys. */
  readonly keys: KV
  /** Rows of tables that every host has. */
  readonly state: KV
  /** Snapshots of templates, and those that callers keep. */
  readonly snapshots: KV
  /** Which host owns which service. */
  readonly services: KV
  /** What one host has taken on, so that no other does. */
  readonly claims: KV
}

const CONNECT_TIMEOUT_MS = 5_000
const RECONNECT_WAIT_MS = 250
/** A connection without an answer for this long is dead: a cut link looks like silence. */
const PING_INTERVAL_MS = 2_000
const PINGS_UNANSWERED_MAX = 2
/** A firing that is older is on record, or was missed. */
const CLAIM_KEPT_MS = 7 * 24 * 3_600_000
const KEY_CHECK = 'cluster'

/** Connects and makes the buckets if this is the first host. Throws `cluster_unavailable` or `setup_failed`. */
export async function connectCluster(options: ConnectCluster): Promise<ClusterConnection> {
  const nats = await openNats(options)
  try {
    const manager = await jetstreamManager(nats)
    const client = jetstream(nats)
    const kvm = new Kvm(client)
    // Reads ask the leader: the other servers may lag behind it, or give the same entries other revisions (decision 263).
    const shared = { history: 1, replicas: options.replicas, allow_direct: false }
    const bucket = (name: string) => kvm.create(`dormouse-${name}`, shared)
    const [hosts, directory, names, keys, state, snapshots, services, claims] = await Promise.all([
      bucket('hosts'),
      bucket('directory'),
      bucket('names'),
      bucket('keys'),
      bucket('state'),
      bucket('snapshots'),
      bucket('services'),
      kvm.create('dormouse-claims', { ...shared, ttl: CLAIM_KEPT_MS }),
    ])
    await requireSameKey(keys, options.key)
    const format = await StateFormat.open({ keys, newest: options.newestFormat })
    return {
      ...{ nats, jetstream: client, manager, key: options.key, format },
      ...{ hosts, directory, names, keys, state, snapshots, services, claims },
      [Symbol.asyncDispose]: () => nats.close(),
    }
  } catch (error) {
    await nats.close()
    throw explain(error)
  }
}

/** A connection without the buckets of a cluster. Throws `cluster_unavailable` or `setup_failed`. */
export async function openNats(
  options: Pick<ConnectCluster, 'servers' | 'credentialsFile' | 'caFile' | 'hostId'>,
): Promise<NatsConnection> {
  const { servers, credentialsFile, caFile, hostId } = options
  if (caFile !== undefined) await requireReadable(caFile)
  const isTls = servers.some((server) => server.startsWith('tls://'))
  const natsOptions: NodeConnectionOptions = {
    servers: [...servers],
    name: `dormouse ${hostId}`,
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
    reconnectTimeWait: RECONNECT_WAIT_MS,
    pingInterval: PING_INTERVAL_MS,
    maxPingOut: PINGS_UNANSWERED_MAX,
    // Otherwise the second refusal in a row would be the last try of this host.
    ignoreAuthErrorAbort: true,
    ...(credentialsFile !== undefined && {
      authenticator: credsAuthenticator(natsCredentials(credentialsFile)),
    }),
    // Without `tls://` the file is for the other hosts only: with these options the client would refuse a plain server.
    ...(isTls && { tls: caFile === undefined ? {} : { caFile } }),
  }
  try {
    return await connect(natsOptions)
  } catch (cause) {
    throw refusal(cause, servers.join(', '))
  }
}

async function requireReadable(caFile: string): Promise<void> {
  await access(caFile, constants.R_OK).catch((cause: unknown) => {
    throw new DormouseError('setup_failed', 'The file with the certificates of the cluster cannot be read.', {
      hint: 'Check `cluster.caFile` and its permissions.',
      cause,
    })
  })
}

/** Why there is no connection. Waiting helps only when no server answers. */
function refusal(cause: unknown, servers: string): DormouseError {
  if (cause instanceof errors.AuthorizationError || cause instanceof errors.UserAuthenticationExpiredError)
    return new DormouseError('setup_failed', `NATS at ${servers} refuses this host: ${cause.message}.`, {
      hint: 'Name a credentials file of NATS that is valid with `cluster.credentialsFile` (DORMOUSE_CLUSTER_CREDENTIALS).',
      cause,
    })
  const certificate = certificateProblem(cause)
  if (certificate !== undefined)
    return new DormouseError(
      'setup_failed',
      `The certificate of NATS at ${servers} is not accepted: ${certificate}.`,
      {
        hint: 'Name the certificates that sign it with `cluster.caFile` (DORMOUSE_CLUSTER_CA), and an address that it is for.',
        cause,
      },
    )
  return new DormouseError('cluster_unavailable', `No NATS server answers at ${servers}.`, { cause })
}

/** Codes of OpenSSL for a chain that does not verify, and of Node.js for another name. */
const CERTIFICATE_CODES = /^(?:.*CERT.*|UNABLE_TO_VERIFY.*|.*_SIGNATURE.*)$/

function certificateProblem(error: unknown): string | undefined {
  for (let one = error; one instanceof Error; one = one.cause)
    if ('code' in one && CERTIFICATE_CODES.test(String(one.code))) return one.message
  return undefined
}

/** The first host leaves a proof of its key, without the key. A host with another key would read nothing. */
async function requireSameKey(keys: KV, key: ClusterKey): Promise<void> {
  await keys.create(KEY_CHECK, key.proof).catch(() => undefined)
  const known = await keys.get(KEY_CHECK)
  // The answer to its own write was lost, and the write comes later.
  if (known === null) throw new Error('NATS does not have the proof of the cluster key')
  if (known.string() === key.proof) return
  throw new DormouseError(
    'setup_failed',
    'This host has another cluster key than the hosts of this cluster.',
    {
      hint: 'Copy `cluster.key` from the data directory of a host of the cluster, or name it with --cluster-key.',
    },
  )
}

function explain(error: unknown): unknown {
  if (error instanceof DormouseError) return error
  return new DormouseError('cluster_unavailable', 'The NATS servers refuse to hold the state of a cluster.', {
    hint: 'Start them with JetStream (`nats-server --jetstream`), and with as many servers as `cluster.replicas` says.',
    cause: error,
  })
}
