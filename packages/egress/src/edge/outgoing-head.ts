import type { IncomingMessage } from 'node:http'
import type { InterceptedDestination } from '../gate/interceptor.ts'
import { nameInAuthority } from '../gate/request-head.ts'
import type { EdgeSecret } from '../policy/egress-policy.ts'
import { Refusal } from './refusal.ts'
import { substitute } from './substitute.ts'

export interface OutgoingHead {
  readonly method: string
  readonly path: string
  /** Names and values in turn, in the client's order, with secrets put in. */
  readonly headers: string[]
  readonly hasBody: boolean
}

/** Headers about the client's connection. The connection to the server has its own. */
const OF_A_CONNECTION: ReadonlySet<string> = new Set(['connection', 'keep-alive', 'proxy-connection'])
/**
 * Headers that the `Connection` header must not remove: they say how the body is read and for whom it is. `TE:
 * trailers` also stays.
 */
const STAYS: ReadonlySet<string> = new Set(['host', 'content-length', 'transfer-encoding', 'te'])
/**
 * Headers that lead to responses in which secrets cannot be found: compressed or partial ones. Servers work without
 * them.
 */
const HIDES_SECRETS: ReadonlySet<string> = new Set([
  'accept-encoding',
  'te',
  'range',
  'if-range',
  'sec-websocket-extensions',
])
/** The response to TRACE repeats the request; CONNECT would hide what follows. */
const REFUSED_METHODS: ReadonlySet<string> = new Set(['TRACE', 'CONNECT'])
const METHODS_WITH_BODY: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/**
 * The head that is sent for a request. Node's parser has understood all of it, and Node writes it anew: nothing
 * ambiguous gets through. Throws a Refusal.
 */
export function outgoingHead(request: IncomingMessage, to: InterceptedDestination): OutgoingHead {
  const { method = '', url: path = '' } = request
  if (REFUSED_METHODS.has(method)) throw new Refusal('method_not_allowed', `${method} is not supported.`)
  const given = headerPairs(request.rawHeaders)
  requireHost(given, to)
  // An absolute target would name the server a second time.
  if (!path.startsWith('/') && !(path === '*' && method === 'OPTIONS'))
    throw new Refusal('misdirected', 'The target of the request must be a path.')
  requireUsable(given, to.secrets)
  const hasSecrets = to.secrets.length > 0
  const dropped = connectionHeaderNames(given)
  const isPassedOn = (name: string) => !dropped.has(name) && !(hasSecrets && HIDES_SECRETS.has(name))
  const headers = given
    .filter(([name]) => isPassedOn(name.toLowerCase()))
    .flatMap(([name, value]) => [name, substitute({ name, value }, to.secrets)])
  if (hasSecrets) headers.push('Accept-Encoding', 'identity')
  const hasBody = requireFraming(given)
  // Otherwise Node would announce a chunked body where there is none.
  if (!hasBody && METHODS_WITH_BODY.has(method) && !has(given, 'content-length')) {
    headers.push('Content-Length', '0')
  }
  return { method, path, headers, hasBody }
}

export function headerPairs(rawHeaders: readonly string[]): [name: string, value: string][] {
  return Array.from({ length: rawHeaders.length / 2 }, (_, index) => [
    rawHeaders[2 * index] ?? '',
    rawHeaders[2 * index + 1] ?? '',
  ])
}

/** The names of headers about the connection, in lower case. */
export function connectionHeaderNames(headers: readonly (readonly [string, string])[]): Set<string> {
  const named = headers
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(','))
    .map((name) => name.trim().toLowerCase())
    .filter((name) => !STAYS.has(name))
  return new Set([...OF_A_CONNECTION, ...named])
}

/** A server with many names selects the site by this header, so it must be the host of the secret. */
function requireHost(headers: readonly (readonly [string, string])[], to: InterceptedDestination): void {
  const [host, ...others] = valuesOf(headers, 'host')
  if (host === undefined || others.length > 0)
    throw new Refusal('bad_request', 'A request must have one Host header.')
  const port = /:(?<port>\d{0,5})$/.exec(host.replace(/^\[[^\]]*\]/, ''))?.groups?.['port']
  const name = nameInAuthority(host)
  if (name === to.name && (port === undefined || Number(port) === to.port)) return
  throw new Refusal(
    'misdirected',
    `The connection is for ${to.name}, the request for another host. Nothing was sent.`,
    name ?? 'a host that cannot be read',
  )
}

/** An unusable placeholder would look like a wrong secret to the server. */
function requireUsable(
  headers: readonly (readonly [string, string])[],
  secrets: readonly EdgeSecret[],
): void {
  for (const { problem, placeholder } of secrets) {
    if (problem === undefined) continue
    const isUsed = ([name, value]: readonly [string, string]) =>
      substitute({ name, value }, [{ placeholder, value: '' }]) !== value
    if (headers.some(isUsed)) throw new Refusal('secret_unusable', problem)
  }
}

/** Whether there is a body. Node's parser has refused ambiguous framing. */
function requireFraming(headers: readonly (readonly [string, string])[]): boolean {
  const encodings = valuesOf(headers, 'transfer-encoding')
  if (encodings.length === 0) return valuesOf(headers, 'content-length').some((value) => Number(value) > 0)
  if (encodings.length === 1 && encodings[0]?.toLowerCase() === 'chunked') return true
  throw new Refusal('not_supported', 'The only supported Transfer-Encoding is chunked.')
}

function has(headers: readonly (readonly [string, string])[], wanted: string): boolean {
  return valuesOf(headers, wanted).length > 0
}

function valuesOf(headers: readonly (readonly [string, string])[], wanted: string): string[] {
  return headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value)
}
