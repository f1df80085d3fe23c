import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import type { ServerConfig, TlsFiles } from './config.ts'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Of an address. A name can mean another address tomorrow, so it never counts as loopback. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  return family !== 0 && loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** Keys and everything that sandboxes hold would travel readable for everybody on the way. */
export function refuseInsecureBind({
  host,
  tls,
  allowInsecureBind,
}: Pick<ServerConfig, 'host' | 'tls' | 'allowInsecureBind'>): void {
  if (isLoopback(host) || tls !== undefined || allowInsecureBind) return
  throw new DormouseError('insecure_bind', `${host} can be reached from outside, and there is no TLS`, {
    details: { host },
  })
}

/** Below which ports of sandboxes have host names. Browsers take every name below `localhost` for this machine. */
export function previewDomain({ host, domain }: Pick<ServerConfig, 'host' | 'domain'>): string | undefined {
  return domain ?? (isLoopback(host) ? 'localhost' : undefined)
}

/** What the listener needs. Read at the start: a wrong path is found before anything runs. */
export function readTls({ certFile, keyFile }: TlsFiles): { cert: Buffer; key: Buffer } {
  return { cert: readPem(certFile, 'certificate'), key: readPem(keyFile, 'private key') }
}

/** Where clients on this machine reach the server. `port` is the one that it got. */
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
      hint: 'Check the path and who may read it.',
      cause,
    })
  }
}
