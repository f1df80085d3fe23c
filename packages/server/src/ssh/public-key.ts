import { createHash, createPublicKey } from 'node:crypto'
import { DormouseError } from '@dormouse/contracts'
import ssh2, { type ParsedKey } from 'ssh2'

const TYPES = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'ssh-rsa',
] as const
const RSA_MIN_BITS = 2048

export interface PublicKey {
  readonly type: string
  /** In the wire format. */
  readonly blob: Buffer
}

/** Parses a line as in `id_ed25519.pub`. Throws `invalid_argument`. */
export function parsePublicKey(text: string): PublicKey {
  if (text.includes('PRIVATE KEY'))
    throw refused('is a private key; keep it secret', 'Send the file that ends in .pub.')
  const [type = '', encoded = ''] = text.trim().split(/[ \t]+/)
  if (/[\r\n]/.test(text.trim())) throw refused('must be one line', 'Add one key at a time.')
  if (!(TYPES as readonly string[]).includes(type))
    throw refused(`is not a public key of a supported type (${TYPES.join(', ')})`)
  const blob = Buffer.from(encoded, 'base64')
  // Node's decoder accepts malformed Base64; the stored key must be what the caller sent.
  if (blob.toString('base64') !== encoded) throw refused('is truncated, or not Base64')
  const key = readKey({ type, blob })
  const bits = type === 'ssh-rsa' ? createPublicKey(key.getPublicPEM()).asymmetricKeyDetails : undefined
  if (bits !== undefined && (bits.modulusLength ?? 0) < RSA_MIN_BITS)
    throw refused(
      `has ${bits.modulusLength} bits; an RSA key needs at least ${RSA_MIN_BITS}`,
      'Create a new key with `ssh-keygen -t ed25519`.',
    )
  return { type, blob }
}

/** In the format of `ssh-keygen -l`. */
export function fingerprintOf(blob: Uint8Array): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`
}

export function lineOf({ type, blob }: PublicKey): string {
  return `${type} ${blob.toString('base64')}`
}

/** Whether `data` was signed with the key. RSA with SHA-2 only. */
export function hasSigned(
  key: PublicKey,
  { data, signature, hash }: { data: Buffer; signature: Buffer; hash: string | undefined },
): boolean {
  if (key.type === 'ssh-rsa' && hash !== 'sha256' && hash !== 'sha512') return false
  return readKey(key).verify(data, signature, hash) === true
}

function readKey(key: PublicKey): ParsedKey {
  const parsed = ssh2.utils.parseKey(lineOf(key))
  if (parsed instanceof Error || Array.isArray(parsed)) throw refused('cannot be parsed')
  if (parsed.type !== key.type || parsed.isPrivateKey() || !parsed.getPublicSSH().equals(key.blob))
    throw refused('does not match its declared type')
  return parsed
}

function refused(message: string, hint = 'Send one line as in ~/.ssh/id_ed25519.pub.'): DormouseError {
  return new DormouseError('invalid_argument', `publicKey: ${message}`, {
    hint,
    details: { field: 'publicKey' },
  })
}
