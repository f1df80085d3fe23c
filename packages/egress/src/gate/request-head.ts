import { canonicalAddress } from '../policy/address.ts'
import { normalizeName } from '../policy/domain-name.ts'

/**
 * `more`: the head is not complete yet. `other`: this is not HTTP. `name` is undefined when there is none, or when it
 * is ambiguous.
 */
export type RequestHead = 'more' | 'other' | { readonly name: string | undefined }

/** Lenient: what a lenient server would accept as HTTP must not pass as another protocol. */
const LOOKS_LIKE_HTTP = /\bHTTP\/\d/i
const REQUEST_LINE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+ (\S+) HTTP\/1\.[01]$/
/** HTTP/0.9: a method and a path, without a host. */
const WITHOUT_VERSION = /^[A-Za-z]+[ \t]+\//
/** An incomplete line: a method, then text. Other bytes are not HTTP. */
const BEGINS_LIKE_HTTP = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{0,32}(?:[ \t][\t\r\x20-\x7e]*)?$/

/** Reads the host of a request. Never throws. */
export function readRequestHead(bytes: Buffer): RequestHead {
  const text = bytes.toString('latin1').replace(/^[\r\n]+/, '')
  const lineEnd = text.indexOf('\n')
  const line = (lineEnd < 0 ? text : text.slice(0, lineEnd)).replace(/\r$/, '')
  if (lineEnd < 0) return BEGINS_LIKE_HTTP.test(line) ? 'more' : 'other'
  if (!LOOKS_LIKE_HTTP.test(line)) return WITHOUT_VERSION.test(line) ? { name: undefined } : 'other'
  const headEnd = /\r?\n\r?\n/.exec(text)
  if (headEnd === null) return 'more'
  const target = REQUEST_LINE.exec(line)?.[1]
  // HTTP/2 without TLS carries names in compressed frames, which are not read here.
  if (target === undefined) return { name: undefined }
  return { name: hostOf(target, text.slice(lineEnd + 1, headEnd.index).split(/\r?\n/)) }
}

function hostOf(target: string, headers: readonly string[]): string | undefined {
  // Servers disagree about folded headers and blanks before the colon.
  if (headers.some((header) => header !== '' && !/^[^\s:]+:/.test(header))) return undefined
  const hosts = headers.filter((header) => /^host:/i.test(header)).map((header) => header.slice(5).trim())
  const [host] = hosts
  if (hosts.length !== 1 || host === undefined) return undefined
  const name = nameInAuthority(host)
  if (target.startsWith('/') || target === '*') return name
  const inTarget = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#]+)/i.exec(target)?.[1]
  return inTarget !== undefined && nameInAuthority(inTarget) === name ? name : undefined
}

/**
 * The host of `name:port` or `[address]:port`: a normalized name or a canonical address. Undefined when it is neither.
 */
export function nameInAuthority(authority: string): string | undefined {
  const { inBrackets, host = '' } =
    /^(?:\[(?<inBrackets>[0-9a-f:.]+)\]|(?<host>[^:@[\]]+))(?::\d{0,5})?$/i.exec(authority)?.groups ?? {}
  return inBrackets === undefined
    ? (canonicalAddress(host) ?? normalizeName(host))
    : canonicalAddress(inBrackets)
}
