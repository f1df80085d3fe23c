import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import ssh2 from 'ssh2'
import { writePrivateFile } from '../data-directory/write-private-file.ts'
import { fingerprintOf } from './public-key.ts'

export interface HostKey {
  /** In OpenSSH's format. */
  readonly privateKey: string
  /** For `known_hosts`. */
  readonly publicKey: string
  readonly fingerprint: string
}

/** Reads the host key, or creates it at the first start. Clients report an attack when a host key changes. */
export function openHostKey(dataDir: string): HostKey {
  const path = join(dataDir, 'ssh-host-key')
  const privateKey = find(path) ?? make(path)
  const key = parse(privateKey)
  if (key === undefined)
    throw new DormouseError('setup_failed', `${path} is not an Ed25519 private key`, {
      hint: 'Restore it from a backup. If you delete it, the next start creates a new key that every client has to accept.',
    })
  const blob = key.getPublicSSH()
  return {
    privateKey,
    publicKey: `${key.type} ${blob.toString('base64')}`,
    fingerprint: fingerprintOf(blob),
  }
}

function find(path: string): string | undefined {
  try {
    const { mode } = statSync(path)
    if ((mode & 0o077) !== 0)
      throw new DormouseError('setup_failed', `${path} can be read by others`, {
        hint: `Run \`chmod 600 ${path}\`. If someone may have copied it, delete it instead.`,
      })
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Undefined for anything but an Ed25519 private key. */
function parse(privateKey: string) {
  const key = ssh2.utils.parseKey(privateKey)
  if (key instanceof Error || Array.isArray(key) || !key.isPrivateKey() || key.type !== 'ssh-ed25519')
    return undefined
  return key
}

function make(path: string): string {
  let privateKey: string
  // Three of a thousand keys that ssh2 generates are malformed.
  do privateKey = ssh2.utils.generateKeyPairSync('ed25519').private
  while (parse(privateKey) === undefined)
  writePrivateFile(path, privateKey)
  return privateKey
}
