import type { OutgoingHttpHeaders } from 'node:http'
import { isLoopback } from '../../config/bind.ts'
import type { PublicOrigin } from '../../ports/preview-address.ts'
import {
  cookiesForSandbox,
  isForSandbox,
  isOurCookie,
  protocolsForSandbox,
  REFUSED_HEADER,
} from './credentials.ts'
import type { PreviewRequest } from './preview-message.ts'

/** Hop-by-hop headers (RFC 9110, 7.6.1). This server answers `expect` itself. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
])
/** Headers of a request that this server writes itself. */
const REPLACED = new Set([
  ...['host', 'forwarded', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'x-forwarded-prefix'],
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
  /** The `Host` that the program inside gets. Default: that of the request. */
  readonly host?: string | undefined
  /** Gets the headers that the client gets. */
  readonly onHeaders?: ((headers: Readonly<Record<string, unknown>>) => void) | undefined
}

/** How the client sees this server. Trusts forwarded headers from a proxy on this host only. */
export function publicOrigin({ headers, socket }: Pick<PreviewRequest, 'headers' | 'socket'>): PublicOrigin {
  const isTls = socket.encrypted === true
  const told = isNearProxy(socket.remoteAddress) ? one(headers['x-forwarded-proto']) : undefined
  const forwardedHost = isNearProxy(socket.remoteAddress) ? one(headers['x-forwarded-host']) : undefined
  return {
    scheme: told === 'https' || told === 'http' ? told : isTls ? 'https' : 'http',
    host: forwardedHost ?? headers.host ?? 'localhost',
  }
}

/** The headers for the server in the sandbox: names and values in turns. */
export function headersForSandbox(
  request: PreviewRequest,
  { port, prefix, host: masked }: PreviewTarget,
): string[] {
  const hops = hopsIn(request.rawHeaders)
  const isNear = isNearProxy(request.socket.remoteAddress)
  const { scheme, host } = publicOrigin(request)
  // In path mode the host name is this server's, which means nothing in the sandbox.
  const own = prefix === undefined ? (request.headers.host ?? '') : `localhost:${port}`
  const headers = ['host', masked ?? own]
  let forwardedFor = ''
  const { rawHeaders } = request
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    const value = rawHeaders[at + 1] ?? ''
    if (hops.has(name)) continue
    if (name === 'x-forwarded-for' && isNear) forwardedFor += `${value}, `
    if (REPLACED.has(name)) continue
    const kept = forSandbox(name, value)
    if (kept !== undefined) headers.push(name, kept)
  }
  const remote = request.socket.remoteAddress ?? 'unknown'
  headers.push(
    'x-forwarded-for',
    forwardedFor + remote,
    'x-forwarded-proto',
    scheme,
    'x-forwarded-host',
    host,
  )
  if (prefix !== undefined) headers.push('x-forwarded-prefix', prefix)
  // Otherwise Node would send the body unframed for methods that usually have none.
  if (request.headers['transfer-encoding'] !== undefined) headers.push('transfer-encoding', 'chunked')
  return headers
}

/** The headers for the client, from those of the server in the sandbox. Both are names and values in turns. */
export function headersForClient(
  rawHeaders: readonly string[],
  { port, prefix, onHeaders }: PreviewTarget,
): string[] {
  const hops = hopsIn(rawHeaders)
  const headers: string[] = []
  let hasLocation = false
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    const value = rawHeaders[at + 1] ?? ''
    if (hops.has(name) || name === REFUSED_HEADER || (prefix !== undefined && OF_THE_HOST.has(name))) continue
    if (name === 'set-cookie') {
      const cookie = ownCookie(value, prefix)
      if (cookie !== '') headers.push(name, cookie)
    } else if (name !== 'location' || prefix === undefined) headers.push(name, value)
    else if (!hasLocation) {
      hasLocation = true
      headers.push(name, movedBelow(prefix, port, value))
    }
  }
  if (prefix !== undefined) headers.push('content-security-policy', OWN_ORIGIN)
  onHeaders?.(byName(headers))
  return headers
}

/** Headers by name, with lists for those that occur more than once. */
export function byName(headers: readonly string[]): OutgoingHttpHeaders {
  const named: Record<string, string | string[]> = Object.create(null)
  for (let at = 0; at + 1 < headers.length; at += 2) {
    const [name = '', value = ''] = headers.slice(at, at + 2)
    const before = named[name]
    named[name] = before === undefined ? value : [before, value].flat()
  }
  return named
}

/** The lines of a head, each with its end. */
export function headerLines(headers: readonly string[]): string {
  let text = ''
  for (let at = 0; at + 1 < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return text
}

/** The headers that end here: hop-by-hop ones, and those that `Connection` names. */
function hopsIn(rawHeaders: readonly string[]): ReadonlySet<string> {
  let hops: Set<string> | undefined
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.length !== 'connection'.length || rawHeaders[at]?.toLowerCase() !== 'connection')
      continue
    for (const name of listOf(rawHeaders[at + 1] ?? '')) {
      if (HOP_BY_HOP.has(name) || name === 'close') continue
      hops ??= new Set(HOP_BY_HOP)
      hops.add(name)
    }
  }
  return hops ?? HOP_BY_HOP
}

/** A value without what is for this server. */
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

function listOf(header: string): string[] {
  return header
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '')
}
