import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import {
  bitString,
  context,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  set,
  TRUE,
  time,
  utf8String,
} from './der.ts'

/** A certificate and its private key, PEM. */
export interface CertificateAndKey {
  readonly certificate: string
  readonly key: string
}

const ECDSA_WITH_SHA256 = sequence(objectIdentifier('1.2.840.10045.4.3.2'))
const COMMON_NAME = objectIdentifier('2.5.4.3')
const SUBJECT_KEY_ID = '2.5.29.14'
const KEY_USAGE = '2.5.29.15'
const SUBJECT_ALTERNATIVE_NAME = '2.5.29.17'
const BASIC_CONSTRAINTS = '2.5.29.19'
const AUTHORITY_KEY_ID = '2.5.29.35'
const EXTENDED_KEY_USAGE = '2.5.29.37'
const SERVER_AUTH = objectIdentifier('1.3.6.1.5.5.7.3.1')

const HOUR_MS = 3600 * 1000
const DAY_MS = 24 * HOUR_MS
const AUTHORITY_LIFE_MS = 20 * 365 * DAY_MS
/** The key of a leaf never leaves this process, and a new leaf takes a millisecond. */
export const LEAF_LIFE_MS = 7 * DAY_MS
/** Allows for a host clock that was set back; sandboxes share that clock. */
const BACKDATED_MS = HOUR_MS
const DNS_NAME = 2

/** Makes an authority that may sign server certificates and nothing else. */
export function makeAuthority(now: Date): CertificateAndKey {
  const { publicKey, privateKey } = newKeyPair()
  const keyId = keyIdOf(publicKey)
  const name = commonName(`Dormouse edge ${keyId.toString('hex').slice(0, 8)}`)
  const certificate = signed({
    ...{ publicKey, signer: privateKey, subject: name, issuer: name },
    notBefore: new Date(now.getTime() - BACKDATED_MS),
    notAfter: new Date(now.getTime() + AUTHORITY_LIFE_MS),
    extensions: [
      extension(BASIC_CONSTRAINTS, sequence(TRUE, integer(Buffer.of(0))), { isCritical: true }),
      // keyCertSign and cRLSign: bits 5 and 6.
      extension(KEY_USAGE, bitString(Buffer.of(0b0000_0110), 1), { isCritical: true }),
      extension(EXTENDED_KEY_USAGE, sequence(SERVER_AUTH)),
      extension(SUBJECT_KEY_ID, octetString(keyId)),
      extension(AUTHORITY_KEY_ID, sequence(context(0, keyId, { isConstructed: false }))),
    ],
  })
  return { certificate, key: toPem(privateKey) }
}

/** Makes a server certificate for `name`, signed by the authority. */
export function makeLeaf(name: string, authority: CertificateAndKey, now: Date): CertificateAndKey {
  const signer = createPrivateKey(authority.key)
  const { publicKey, privateKey } = newKeyPair()
  const certificate = signed({
    ...{ publicKey, signer },
    // The name is in the extension: a common name is limited to 64 characters.
    subject: sequence(),
    issuer: subjectOf(authority),
    notBefore: new Date(now.getTime() - BACKDATED_MS),
    notAfter: new Date(now.getTime() + LEAF_LIFE_MS),
    extensions: [
      extension(BASIC_CONSTRAINTS, sequence(), { isCritical: true }),
      // digitalSignature: bit 0.
      extension(KEY_USAGE, bitString(Buffer.of(0b1000_0000), 7), { isCritical: true }),
      extension(EXTENDED_KEY_USAGE, sequence(SERVER_AUTH)),
      extension(SUBJECT_KEY_ID, octetString(keyIdOf(publicKey))),
      extension(
        AUTHORITY_KEY_ID,
        sequence(context(0, keyIdOf(createPublicKey(signer)), { isConstructed: false })),
      ),
      extension(
        SUBJECT_ALTERNATIVE_NAME,
        sequence(context(DNS_NAME, Buffer.from(name, 'ascii'), { isConstructed: false })),
        { isCritical: true },
      ),
    ],
  })
  return { certificate, key: toPem(privateKey) }
}

interface ToBeSigned {
  readonly publicKey: KeyObject
  readonly signer: KeyObject
  readonly subject: Buffer
  readonly issuer: Buffer
  readonly notBefore: Date
  readonly notAfter: Date
  readonly extensions: readonly Buffer[]
}

/** RFC 5280, 4.1. */
function signed({ publicKey, signer, subject, issuer, notBefore, notAfter, extensions }: ToBeSigned): string {
  const version3 = context(0, integer(Buffer.of(2)), { isConstructed: true })
  const body = sequence(
    version3,
    integer(randomBytes(16)),
    ECDSA_WITH_SHA256,
    issuer,
    sequence(time(notBefore), time(notAfter)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    context(3, sequence(...extensions), { isConstructed: true }),
  )
  const signature = sign('sha256', body, { key: signer, dsaEncoding: 'der' })
  const whole = sequence(body, ECDSA_WITH_SHA256, bitString(signature))
  return new X509Certificate(whole).toString()
}

function extension(id: string, value: Buffer, { isCritical }: { isCritical?: boolean } = {}): Buffer {
  return sequence(objectIdentifier(id), ...(isCritical === true ? [TRUE] : []), octetString(value))
}

function commonName(text: string): Buffer {
  return sequence(set(sequence(COMMON_NAME, utf8String(text))))
}

/** The subject as `makeAuthority` wrote it. */
function subjectOf({ certificate }: CertificateAndKey): Buffer {
  const name = /^CN=(?<name>[^\n]+)$/.exec(new X509Certificate(certificate).subject)?.groups?.['name']
  if (name === undefined) throw new Error('The certificate of the edge was not made by Dormouse.')
  return commonName(name)
}

function keyIdOf(publicKey: KeyObject): Buffer {
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest()
    .subarray(0, 20)
}

function newKeyPair(): { publicKey: KeyObject; privateKey: KeyObject } {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' })
}

function toPem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString()
}
