import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import type { ServerConfig, TlsFiles } from './config.ts'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** A host name never counts as loopback: it can resolve to another address tomorrow. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family !== 0 && loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** Without TLS, API keys and everything in sandboxes would travel unencrypted. */
export function refuseInsecureBind({
  host,
  tls,
  allowInsecureBind,
}: Pick<ServerConfig, 'host' | 'tls' | 'allowInsecureBind'>): void {
  if (isLoopback(host) || tls !== undefined || allowInsecureBind) return
  throw new DormouseError('insecure_bind', `${host} is reachable from outside, and TLS is not configured`, {
    details: { host },
  })
}

/** The domain of previews. Browsers resolve every name below `localhost` to this machine. */
export function previewDomain({ host, domain }: Pick<ServerConfig, 'host' | 'domain'>): string | undefined {
  return domain ?? (isLoopback(host) ? 'localhost' : undefined)
}

/** Reads the TLS files. The server calls this first, so that a wrong path fails before anything runs. */
export function readTls({ certFile, keyFile }: TlsFiles): { cert: Buffer; key: Buffer } {
  return { cert: readPem(certFile, 'certificate'), key: readPem(keyFile, 'private key') }
}

/** The URL of the server for clients on this machine. `port` is the port that it listens on. */
export function localUrl(
  { host, tls, domain }: Pick<ServerConfig, 'host' | 'tls' | 'domain'>,
  port: number,
): string {
  const isWildcardAddress = host === '0.0.0.0' || host === '::'
  const address = isWildcardAddress ? (host === '::' ? '::1' : '127.0.0.1') : host
  // A certificate is for a name.
  const name =
    tls !== undefined && domain !== undefined ? domain : isIP(address) === 6 ? `[${address}]` : address
  return `${tls === undefined ? 'http' : 'https'}://${name}:${port}`
}

function readPem(path: string, what: string): Buffer {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw new DormouseError('setup_failed', `The TLS ${what} ${path} cannot be read`, {
      hint: 'Check the path and the permissions.',
      cause,
    })
  }
}
