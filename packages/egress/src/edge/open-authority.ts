import { createPrivateKey, X509Certificate } from 'node:crypto'
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { type Certified, makeAuthority } from './certificate.ts'

/** Made anew when so little is left: sandboxes learn the next one when they wake. */
const RENEW_BEFORE_MS = 365 * 24 * 3600 * 1000

/**
 * The authority that sandboxes with secrets trust: from `path`, or made and kept there. One file with key and certificate, so that
 * one is never there without the other; only its owner can read it.
 */
export function openAuthority(path: string, now: Date = new Date()): Certified {
  const found = find(path)
  if (found !== undefined && validUntil(found) - now.getTime() > RENEW_BEFORE_MS) return found
  const made = makeAuthority(now)
  write(path, `${made.key}${made.certificate}`)
  return made
}

function find(path: string): Certified | undefined {
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
    if (!certificate.checkPrivateKey(key)) throw new Error('key and certificate do not belong together')
    return {
      certificate: certificate.toString(),
      key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    }
  } catch (cause) {
    throw new DormouseError('setup_failed', `${path} is not the key and certificate that Dormouse wrote.`, {
      hint: 'Restore it from a backup, or delete it: a new one is made, and sandboxes learn it when they wake.',
      cause,
    })
  }
}

function validUntil({ certificate }: Certified): number {
  return Date.parse(new X509Certificate(certificate).validTo)
}

/** Whole or not at all, and on disk when it returns. */
function write(path: string, text: string): void {
  const draft = `${path}.new`
  // Left by a crash, perhaps with another mode: opening it would keep that.
  rmSync(draft, { force: true })
  const file = openSync(draft, 'wx', 0o600)
  try {
    fchmodSync(file, 0o600)
    writeSync(file, text)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(draft, path)
  const directory = openSync(dirname(path), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
