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
  /** As it goes over the wire. */
  readonly blob: Buffer
}

/** Of a line as in `id_ed25519.pub`. Throws `invalid_argument`. */
export function parsePublicKey(text: string): PublicKey {
  if (text.includes('PRIVATE KEY'))
    throw refused('is a private key, which never leaves its machine', 'Send the file that ends in .pub.')
  const [type = '', encoded = ''] = text.trim().split(/[ \t]+/)
  if (/[\r\n]/.test(text.trim())) throw refused('must be one line', 'Add one key at a time.')
  if (!(TYPES as readonly string[]).includes(type))
    throw refused(`is not a public key of a type that is taken here (${TYPES.join(', ')})`)
  const blob = Buffer.from(encoded, 'base64')
  // Decoding is forgiving; what is kept must be what was sent.
  if (blob.toString('base64') !== encoded) throw refused('is cut off, or not Base64')
  const key = readKey({ type, blob })
  const bits = type === 'ssh-rsa' ? createPublicKey(key.getPublicPEM()).asymmetricKeyDetails : undefined
  if (bits !== undefined && (bits.modulusLength ?? 0) < RSA_MIN_BITS)
    throw refused(
      `has ${bits.modulusLength} bits, an RSA key needs ${RSA_MIN_BITS}`,
      'Make another with `ssh-keygen -t ed25519`.',
    )
  return { type, blob }
}

/** As `ssh-keygen -l` shows it. */
export function fingerprintOf(blob: Uint8Array): string {
  return `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`
}

export function lineOf({ type, blob }: PublicKey): string {
  return `${type} ${blob.toString('base64')}`
}

/** Was `data` signed with it? RSA only with SHA-2. */
export function hasSigned(
  key: PublicKey,
  { data, signature, hash }: { data: Buffer; signature: Buffer; hash: string | undefined },
): boolean {
  if (key.type === 'ssh-rsa' && hash !== 'sha256' && hash !== 'sha512') return false
  return readKey(key).verify(data, signature, hash) === true
}

function readKey(key: PublicKey): ParsedKey {
  const parsed = ssh2.utils.parseKey(lineOf(key))
  if (parsed instanceof Error || Array.isArray(parsed)) throw refused('cannot be read')
  if (parsed.type !== key.type || parsed.isPrivateKey() || !parsed.getPublicSSH().equals(key.blob))
    throw refused('is not what it says it is')
  return parsed
}

function refused(message: string, hint = 'Send one line as in ~/.ssh/id_ed25519.pub.'): DormouseError {
  return new DormouseError('invalid_argument', `publicKey: ${message}`, {
    hint,
    details: { field: 'publicKey' },
  })
}
