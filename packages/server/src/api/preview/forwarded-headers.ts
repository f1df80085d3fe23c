import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { isLoopback } from '../../config/bind.ts'
import type { PublicOrigin } from '../../ports/preview-address.ts'
import { cookiesForSandbox, isForSandbox, protocolsForSandbox, TOKEN_COOKIE } from './credentials.ts'

/** Of one connection, not of the message (RFC 9110, 7.6.1). `expect` is answered here. */
const HOP_BY_HOP = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade', 'expect'],
])
/** They speak for a whole host name, which by path is not the sandbox's. */
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
/** A page by path gets an origin of its own: it cannot read what other pages of this host keep. */
const OWN_ORIGIN = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts'

export interface PreviewTarget {
  readonly port: number
  /** By path: what stands before the target. */
  readonly prefix: string | undefined
}

/** How the caller sees this server. A proxy on this machine is believed, others are not. */
export function publicOrigin({ headers, socket }: IncomingMessage): PublicOrigin {
  const isTls = (socket as Partial<TLSSocket>).encrypted === true
  const told = isNearProxy(socket.remoteAddress) ? one(headers['x-forwarded-proto']) : undefined
  const forwardedHost = isNearProxy(socket.remoteAddress) ? one(headers['x-forwarded-host']) : undefined
  return {
    scheme: told === 'https' || told === 'http' ? told : isTls ? 'https' : 'http',
    host: forwardedHost ?? headers.host ?? 'localhost',
  }
}

/** What the server inside gets. */
export function headersForSandbox(
  request: IncomingMessage,
  { port, prefix }: PreviewTarget,
): OutgoingHttpHeaders {
  const headers = withoutHops(request)
  const { scheme, host } = publicOrigin(request)
  const remote = request.socket.remoteAddress ?? 'unknown'
  const before = isNearProxy(remote) ? listOf(headers['x-forwarded-for']) : []
  // By path the host name is this server's, which means nothing inside.
  headers['host'] = prefix === undefined ? (request.headers.host ?? '') : `localhost:${port}`
  headers['x-forwarded-for'] = [...before, remote].join(', ')
  headers['x-forwarded-proto'] = scheme
  headers['x-forwarded-host'] = host
  delete headers['x-forwarded-prefix']
  delete headers['forwarded']
  if (prefix !== undefined) headers['x-forwarded-prefix'] = prefix
  // Node would write a body without a length as it is where the method usually has none.
  if (request.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked'
  return headers
}

/** What the caller gets. */
export function headersForClient(
  answer: IncomingMessage,
  { port, prefix }: PreviewTarget,
): OutgoingHttpHeaders {
  const headers = withoutHops(answer)
  const { location } = answer.headers
  if (location !== undefined && prefix !== undefined) headers['location'] = movedBelow(prefix, port, location)
  const cookies = answer.headers['set-cookie']
  if (cookies !== undefined)
    headers['set-cookie'] = cookies
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

function withoutHops({ rawHeaders, headers }: IncomingMessage): Record<string, string | string[]> {
  const dropped = new Set([...HOP_BY_HOP, ...listOf(headers.connection).map((name) => name.toLowerCase())])
  const kept: Record<string, string | string[]> = Object.create(null)
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase()
    const value = forSandbox(name, rawHeaders[at + 1] ?? '')
    if (value === undefined || dropped.has(name)) continue
    const before = kept[name]
    kept[name] = before === undefined ? value : [...[before].flat(), value]
  }
  return kept
}

/** In an answer none of these names means anything. */
function forSandbox(name: string, value: string): string | undefined {
  if (name === 'cookie') return cookiesForSandbox(value)
  if (name === 'sec-websocket-protocol') return protocolsForSandbox(value)
  return isForSandbox(name, value) ? value : undefined
}

/** An address of the server inside, as it is from outside; others stay. */
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

/** For this preview alone: not for the domain above it, and by path not for other paths. */
function ownCookie(cookie: string, prefix: string | undefined): string {
  const [pair = '', ...attributes] = cookie.split(';')
  if (pair.trim().split('=', 1)[0] === TOKEN_COOKIE) return ''
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
  return address !== undefined && isLoopback(address.replace(/^::ffff:/, ''))
}

function one(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header.split(',', 1)[0]?.trim() : undefined
}

function listOf(header: string | string[] | undefined): string[] {
  return [header ?? []]
    .flat()
    .flatMap((value) => value.split(','))
    .map((name) => name.trim())
    .filter((name) => name !== '')
}
