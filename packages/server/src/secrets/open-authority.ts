import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { DormouseError } from '@dormouse/contracts'
import { type CertificateAndKey, makeAuthority } from '@dormouse/egress'
import { writePrivateFile } from '../data-directory/write-private-file.ts'

export const EDGE_FILE = 'edge.pem'

/** Renewed when less than this is left. Sandboxes get the new certificate when they wake. */
const RENEW_BEFORE_MS = 365 * 24 * 3600 * 1000

/**
 * Reads the authority that sandboxes with secrets trust from `path`, or creates it there. Key and certificate are in
 * one file, so neither exists without the other. Only the owner of the file can read it.
 */
export function openAuthority(path: string, now: Date = new Date()): CertificateAndKey {
  const found = find(path)
  if (found !== undefined && isLasting(found.certificate, now)) return found
  const made = makeAuthority(now)
  writePrivateFile(path, `${made.key}${made.certificate}`)
  return made
}

function find(path: string): CertificateAndKey | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const certificate = new X509Certificate(text)
    const key = createPrivateKey(text)
    if (!certificate.checkPrivateKey(key)) throw new Error('key and certificate do not match')
    return {
      certificate: certificate.toString(),
      key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    }
  } catch (cause) {
    throw new DormouseError('setup_failed', `${path} is not the key and certificate that Dormouse wrote.`, {
      hint: 'Restore it from a backup, or delete it: the next start creates a new one, and sandboxes get it when they wake.',
      cause,
    })
  }
}

/** Whether a certificate, PEM, need not be renewed yet. */
export function isLasting(certificate: string, now: Date = new Date()): boolean {
  return Date.parse(new X509Certificate(certificate).validTo) - now.getTime() > RENEW_BEFORE_MS
}
