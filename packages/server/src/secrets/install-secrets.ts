import { createHash } from 'node:crypto'
import { rootCertificates } from 'node:tls'
import { hasErrorCode } from '@dormouse/contracts'
import type { Burrow, Guest } from '@dormouse/engine'

/** Debian's bundle of roots, which OpenSSL, curl and git read. */
const BUNDLE = '/etc/ssl/certs/ca-certificates.crt'
/** `update-ca-certificates` rebuilds the bundle from this directory. */
const CERTIFICATE = '/usr/local/share/ca-certificates/dormouse.crt'
/**
 * Records what was installed. It is part of the sandbox's files, so a rollback, fork or template has the record that
 * matches its state.
 */
const RECORD = '/var/lib/dormouse/secrets'
const RECORD_MAX_BYTES = 64 * 1024
const CERTIFICATE_LINE = 'certificate '
const AS_ROOT = { user: 'root' }

/** Programs with roots of their own read these variables. */
export const TRUST_ENV: Readonly<Record<string, string>> = Object.fromEntries(
  [
    'SSL_CERT_FILE',
    'REQUESTS_CA_BUNDLE',
    'CURL_CA_BUNDLE',
    'NODE_EXTRA_CA_CERTS',
    'GIT_SSL_CAINFO',
    'PIP_CERT',
  ].map((name) => [name, BUNDLE]),
)

export interface SecretInstallation {
  readonly burrow: Pick<Burrow, 'guest' | 'addEnv'>
  /** The certificate of the edge, PEM. */
  readonly certificate: string
  /** Variables for secrets and trust. Variables that the caller set for the sandbox are not among them. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * Makes all programs started from now on see the variables and trust the edge. Idempotent: installs only what is
 * missing, so changes that programs made inside stay. A secret that was deleted and created again has a new placeholder
 * and counts as missing.
 */
export async function installSecrets({ burrow, certificate, env }: SecretInstallation): Promise<void> {
  const { guest } = burrow
  const trusted = `${CERTIFICATE_LINE}${fingerprintOf(certificate)}`
  const done = await readRecord(guest)
  const added = Object.entries(env).filter((variable) => !done.has(lineOf(variable)))
  const isTrusted = done.has(trusted)
  if (isTrusted && added.length === 0) return
  await Promise.all([
    !isTrusted && trust(guest, certificate),
    added.length > 0 && burrow.addEnv(Object.fromEntries(added)),
  ])
  // Certificates add up; a variable has one line, with its last value.
  const certificates = [...done].filter((line) => line.startsWith(CERTIFICATE_LINE))
  const lines = new Set([...certificates, trusted, ...Object.entries(env).map(lineOf)])
  const record = [...lines].map((line) => `${line}\n`).join('')
  await guest.files.write(RECORD, record, { ...AS_ROOT, parents: true, mode: 0o644 })
}

function lineOf([name, value]: [string, string]): string {
  return `env ${name}=${value}`
}

async function trust({ files }: Guest, certificate: string): Promise<void> {
  await Promise.all([
    files.write(CERTIFICATE, certificate, { ...AS_ROOT, parents: true, mode: 0o644 }),
    addToBundle(files, certificate),
  ])
}

async function addToBundle(files: Guest['files'], certificate: string): Promise<void> {
  const bundle = await files.stat(BUNDLE, AS_ROOT).catch(absent)
  if (bundle !== undefined && bundle.sizeBytes > 0) {
    await files.write(BUNDLE, `\n${certificate}`, { ...AS_ROOT, append: true })
    return
  }
  // The variables point every program to this file, so without the public roots nothing else would be trusted.
  const roots = [...rootCertificates, certificate].join('\n')
  await files.write(BUNDLE, `${roots}\n`, { ...AS_ROOT, parents: true, mode: 0o644 })
}

async function readRecord({ files }: Guest): Promise<Set<string>> {
  const pieces: Uint8Array[] = []
  try {
    for await (const piece of files.read(RECORD, { ...AS_ROOT, length: RECORD_MAX_BYTES })) pieces.push(piece)
  } catch (error) {
    absent(error)
  }
  const lines = Buffer.concat(pieces).toString().split('\n')
  return new Set(lines.filter((line) => line !== ''))
}

function absent(error: unknown): undefined {
  if (!hasErrorCode(error, 'not_found')) throw error
}

function fingerprintOf(certificate: string): string {
  return createHash('sha256').update(certificate).digest('hex')
}
