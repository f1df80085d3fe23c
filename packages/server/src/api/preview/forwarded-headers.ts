import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { isLoopback } from '../../config/bind.ts'
import type { PublicOrigin } from '../../ports/preview-address.ts'
import {
  cookiesForSandbox,
  isForSandbox,
  isOurCookie,
  protocolsForSandbox,
  REFUSED_HEADER,
} from './credentials.ts'

/** Hop-by-hop headers (RFC 9110, 7.6.1). This server answers `expect` itself. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
])
/** Headers that apply to a whole host name. In path mode that name is not the sandbox's. */
const OF_THE_HOST = new Set([
  ...[
    'clear-site-data',
    'strict-transport-security',
    'service-worker-allowed',
    'alt-svc',
    'nel',
    'report-to',
  ],
])
/** In path mode a page gets an opaque origin: it cannot read the storage of other pages of this host. */
const OWN_ORIGIN = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts'

export interface PreviewTarget {
  readonly port: number
  /** In path mode: the part of the path before the target. */
  readonly prefix: string | undefined
  /** Gets the headers that the client gets. */
  readonly onHeaders?: ((headers: Readonly<Record<string, unknown>>) => void) | undefined
}

/** How the client sees this server. Trusts forwarded headers from a proxy on this host only. */
export function publicOrigin({ headers, socket }: IncomingMessage): PublicOrigin {
  const isTls = (socket as Partial<TLSSocket>).encrypted === true
  const told = isNearProxy(socket.remoteAddress) ? one(headers['x-forwarded-proto']) : undefined
  const forwardedHost = isNearProxy(socket.remoteAddress) ? one(headers['x-forwarded-host']) : undefined
  return {
    scheme: told === 'https' || told === 'http' ? told : isTls ? 'https' : 'http',
    host: forwardedHost ?? headers.host ?? 'localhost',
  }
}

/** The headers for the server in the sandbox. */
export function headersForSandbox(
  request: IncomingMessage,
  { port, prefix }: PreviewTarget,
): OutgoingHttpHeaders {
  const headers = withoutHops(request.rawHeaders)
  const { scheme, host } = publicOrigin(request)
  const remote = request.socket.remoteAddress ?? 'unknown'
  const before = isNearProxy(remote) ? listOf(headers['x-forwarded-for']) : []
  // In path mode the host name is this server's, which means nothing in the sandbox.
  headers['host'] = prefix === undefined ? (request.headers.host ?? '') : `localhost:${port}`
  headers['x-forwarded-for'] = [...before, remote].join(', ')
  headers['x-forwarded-proto'] = scheme
  headers['x-forwarded-host'] = host
  delete headers['x-forwarded-prefix']
  delete headers['forwarded']
  if (prefix !== undefined) headers['x-forwarded-prefix'] = prefix
  // Otherwise Node would send the body unframed for methods that usually have none.
  if (request.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked'
  return headers
}

/** The headers for the client, from those of the server in the sandbox: names and values in turns. */
export function headersForClient(
  rawHeaders: readonly string[],
  { port, prefix, onHeaders }: PreviewTarget,
): OutgoingHttpHeaders {
  const headers = withoutHops(rawHeaders)
  delete headers[REFUSED_HEADER]
  onHeaders?.(headers)
  const { location } = headers
  if (location !== undefined && prefix !== undefined)
    headers['location'] = movedBelow(
      prefix,
      port,
      typeof location === 'string' ? location : (location[0] ?? ''),
    )
  const cookies = headers['set-cookie']
  if (cookies !== undefined)
    headers['set-cookie'] = [cookies]
      .flat()
      .map((cookie) => ownCookie(cookie, prefix))
      .filter((cookie) => cookie !== '')
  if (prefix === undefined) return headers
  for (const name of OF_THE_HOST) delete headers[name]
  const policies = headers['content-security-policy']
  headers['content-security-policy'] = [
    ...(policies === undefined ? [] : [policies].flat()),
    OWN_ORIGIN,
  ] as string[]
  return headers
}

function withoutHops(rawHeaders: readonly string[]): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = Object.create(null)
  const connection: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    if (name === 'connection') connection.push(rawHeaders[at + 1] ?? '')
    if (HOP_BY_HOP.has(name)) continue
    const value = forSandbox(name, rawHeaders[at + 1] ?? '')
    if (value === undefined) continue
    const before = kept[name]
    kept[name] = before === undefined ? value : [...[before].flat(), value]
  }
  for (const name of listOf(connection)) delete kept[name.toLowerCase()]
  return kept
}

/** Responses do not have these headers. */
function forSandbox(name: string, value: string): string | undefined {
  if (name === 'cookie') return cookiesForSandbox(value)
  if (name === 'sec-websocket-protocol') return protocolsForSandbox(value)
  return isForSandbox(name, value) ? value : undefined
}

/** Rewrites a location on the server in the sandbox to its public URL. Other locations stay. */
function movedBelow(prefix: string, port: number, location: string): string {
  if (/^\/(?![/\\])/.test(location)) return prefix + location
  const own = new RegExp(
    `^https?://(?:localhost|127\\.0\\.0\\.1|0\\.0\\.0\\.0|\\[::1?\\]):${port}(?=[/?#]|$)`,
    'i',
  ).exec(location)
  if (own === null) return location
  const rest = location.slice(own[0].length)
  return prefix + (rest.startsWith('/') ? rest : `/${rest}`)
}

/** Limits a cookie to this preview: removes its domain and, in path mode, adds the prefix to its path. */
function ownCookie(cookie: string, prefix: string | undefined): string {
  const [pair = '', ...attributes] = cookie.split(';')
  if (isOurCookie(pair.trim().split('=', 1)[0] ?? '')) return ''
  const named = (attribute: string) => attribute.trim().split('=', 1)[0]?.toLowerCase()
  const kept = attributes.filter((attribute) => named(attribute) !== 'domain')
  if (prefix === undefined) return [pair, ...kept].join(';')
  const path = attributes
    .find((attribute) => named(attribute) === 'path')
    ?.split('=')[1]
    ?.trim()
  const below = path?.startsWith('/') === true ? path : '/'
  return [pair, ...kept.filter((attribute) => named(attribute) !== 'path'), ` Path=${prefix}${below}`].join(
    ';',
  )
}

function isNearProxy(address: string | undefined): boolean {
  // The usual one first: to parse an address takes as long as the rest of a head.
  return address === '127.0.0.1' || (address !== undefined && isLoopback(address.replace(/^::ffff:/, '')))
}

function one(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header.split(',', 1)[0]?.trim() : undefined
}

function listOf(header: string | string[] | undefined): string[] {
  if (header === undefined || header.length === 0) return []
  return [header ?? []]
    .flat()
    .flatMap((value) => value.split(','))
    .map((name) => name.trim())
    .filter((name) => name !== '')
}
