import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { UPSTREAM_SERVERS_MAX } from '../limits.ts'

export interface NameServer {
  readonly address: string
  readonly port: number
}

const RESOLV_CONF = '/etc/resolv.conf'
/** Lists the servers behind systemd-resolved. Its stub at 127.0.0.53 also answers from the host's /etc/hosts. */
const RESOLVED_CONF = '/run/systemd/resolve/resolv.conf'
const RESOLVED_STUBS = ['127.0.0.53', '127.0.0.54']

/** The host's name servers. Read each time, because a laptop moves between networks. */
export function readNameServers(read: (path: string) => string = readText): NameServer[] {
  const listed = parseResolvConf(read(RESOLV_CONF))
  const isStub = listed.some(({ address }) => RESOLVED_STUBS.includes(address))
  const behind = isStub ? parseResolvConf(read(RESOLVED_CONF)) : []
  return behind.length > 0 ? behind : listed
}

function parseResolvConf(text: string): NameServer[] {
  return [...text.matchAll(/^[ \t]*nameserver[ \t]+(\S+)/gm)]
    .map((match) => parseNameServer(match[1] ?? ''))
    .filter((server) => server !== undefined)
    .slice(0, UPSTREAM_SERVERS_MAX)
}

/** `1.2.3.4`, `1.2.3.4:53`, `2001:db8::1`, `[2001:db8::1]:53`. */
export function parseNameServer(text: string): NameServer | undefined {
  const [, bracketed, plain, port = '53'] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text) ?? []
  const address = bracketed ?? plain ?? text
  return isIP(address) === 0 || Number(port) > 65_535 ? undefined : { address, port: Number(port) }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
