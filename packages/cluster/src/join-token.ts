import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import { Kvm } from '@nats-io/kv'
import { compareAndDelete, read } from './compare-and-set.ts'
import { type ClusterAddress, type ClusterConnection, openNats } from './connect-cluster.ts'

const BUCKET = 'dormouse-joins'
/** A token that was not used by then is worthless. */
const JOIN_TOKEN_MS = 3_600_000
const SECRET_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Lets one more host join. NATS keeps the cluster key, encrypted with the token, for an hour; the first host that uses
 * the token gets it.
 */
export async function createJoinToken(
  { jetstream }: Pick<ClusterConnection, 'jetstream'>,
  { clusterKey, servers, replicas }: { clusterKey: Uint8Array; servers: readonly string[]; replicas: number },
): Promise<string> {
  const secret = randomBytes(SECRET_BYTES)
  const bucket = await new Kvm(jetstream).create(BUCKET, {
    ...{ ttl: JOIN_TOKEN_MS, history: 1, replicas },
  })
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', encryptionOf(secret), nonce)
  const sealed = Buffer.concat([cipher.update(clusterKey), cipher.final()])
  await bucket.create(nameOf(secret), Buffer.concat([nonce, cipher.getAuthTag(), sealed]))
  return Buffer.from(JSON.stringify({ servers, secret: secret.toString('base64') })).toString('base64url')
}

/** The servers and the key of the cluster. A token can be used once. Throws `invalid_argument`. */
export async function useJoinToken(
  token: string,
  options: Pick<ClusterAddress, 'credentialsFile' | 'caFile'> = {},
): Promise<{ servers: readonly string[]; clusterKey: Buffer }> {
  const { servers, secret } = parseToken(token)
  const nats = await openNats({ ...options, servers, hostId: 'a new host' })
  try {
    const bucket = await new Kvm(nats).open(BUCKET).catch(() => undefined)
    const found = bucket && (await read(bucket, nameOf(secret)).catch(() => undefined))
    if (bucket === undefined || found === undefined || !(await isTaken(bucket, secret, found.revision)))
      throw new DormouseError(
        'invalid_argument',
        'The join token was used before, or is older than an hour.',
        {
          hint: 'Make another one on a host of the cluster: `dormouse cluster token`.',
        },
      )
    const bytes = Buffer.from(found.value)
    const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES)
    const decipher = createDecipheriv('aes-256-gcm', encryptionOf(secret), bytes.subarray(0, NONCE_BYTES))
    decipher.setAuthTag(tag)
    const sealed = bytes.subarray(NONCE_BYTES + TAG_BYTES)
    return { servers, clusterKey: Buffer.concat([decipher.update(sealed), decipher.final()]) }
  } finally {
    await nats.close()
  }
}

function isTaken(bucket: Parameters<typeof read>[0], secret: Buffer, revision: number): Promise<boolean> {
  return compareAndDelete(bucket, nameOf(secret), revision)
}

function parseToken(token: string): { servers: string[]; secret: Buffer } {
  try {
    const { servers, secret } = JSON.parse(Buffer.from(token, 'base64url').toString()) as {
      servers: string[]
      secret: string
    }
    const bytes = Buffer.from(secret, 'base64')
    if (Array.isArray(servers) && servers.length > 0 && bytes.length === SECRET_BYTES)
      return { servers: servers.map(String), secret: bytes }
  } catch {
    // Refused below.
  }
  throw new DormouseError('invalid_argument', 'This is not a join token.', {
    hint: 'Make one on a host of the cluster: `dormouse cluster token`.',
  })
}

function nameOf(secret: Buffer): string {
  return createHash('sha256').update('name').update(secret).digest('hex')
}

function encryptionOf(secret: Buffer): Buffer {
  return createHash('sha256').update('encryption').update(secret).digest()
}
