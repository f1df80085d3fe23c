import { createHash } from 'node:crypto'
import { rootCertificates } from 'node:tls'
import { hasErrorCode } from '@dormouse/contracts'
import type { Burrow, Guest } from '@dormouse/engine'

/** Debian's, where OpenSSL, curl and git look. */
const BUNDLE = '/etc/ssl/certs/ca-certificates.crt'
/** `update-ca-certificates` makes the bundle anew from this directory, too. */
const CERTIFICATE = '/usr/local/share/ca-certificates/dormouse.crt'
/** What was done here, in the same files and memory that a rollback, a fork or a template goes back to. */
const RECORD = '/var/lib/dormouse/secrets'
const RECORD_MAX_BYTES = 64 * 1024
const CERTIFICATE_LINE = 'certificate '
const AS_ROOT = { user: 'root' }

/** Programs that bring their own roots look at these. */
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
  /** Of the edge, PEM. */
  readonly certificate: string
  /** Of secrets and of what they need. What the sandbox was given a value for itself stays as it is. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * Makes everything that is started from now on find the variables and trust the edge. Again is fine: only what is missing is done, so that what
 * programs inside have changed since stays changed. A secret that was made anew has another placeholder: it is missing.
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
  // A certificate adds to those before it; a variable is what it was set to last, and has just one line.
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
  // The variables above name this file for everything: without the roots of others nothing else would be trusted.
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
