import { canonicalAddress } from '../policy/address.ts'
import { normalizeName } from '../policy/domain-name.ts'

/** `more`: not all of it has come. `other`: this is no HTTP. A name of undefined: none, or in a way that could be read in two ways. */
export type RequestHead = 'more' | 'other' | { readonly name: string | undefined }

/** Generous: what a sloppy server would take for HTTP must not pass as something else. */
const LOOKS_LIKE_HTTP = /\bHTTP\/\d/i
const REQUEST_LINE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+ (\S+) HTTP\/1\.[01]$/
/** HTTP/0.9: a method and a path, and no way to say whom it is for. */
const WITHOUT_VERSION = /^[A-Za-z]+[ \t]+\//
/** A line that has only begun: a method, and then text. Whoever begins otherwise does not speak HTTP. */
const BEGINS_LIKE_HTTP = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{0,32}(?:[ \t][\t\r\x20-\x7e]*)?$/

/** Reads which host a request is for. Never throws. */
export function readRequestHead(bytes: Buffer): RequestHead {
  const text = bytes.toString('latin1').replace(/^[\r\n]+/, '')
  const lineEnd = text.indexOf('\n')
  const line = (lineEnd < 0 ? text : text.slice(0, lineEnd)).replace(/\r$/, '')
  if (lineEnd < 0) return BEGINS_LIKE_HTTP.test(line) ? 'more' : 'other'
  if (!LOOKS_LIKE_HTTP.test(line)) return WITHOUT_VERSION.test(line) ? { name: undefined } : 'other'
  const headEnd = /\r?\n\r?\n/.exec(text)
  if (headEnd === null) return 'more'
  const target = REQUEST_LINE.exec(line)?.[1]
  // HTTP/2 without TLS has its names compressed, in frames: they are not looked for there.
  if (target === undefined) return { name: undefined }
  return { name: hostOf(target, text.slice(lineEnd + 1, headEnd.index).split(/\r?\n/)) }
}

function hostOf(target: string, headers: readonly string[]): string | undefined {
  // A header that is spread over lines, or has a blank before its colon, is read in different ways.
  if (headers.some((header) => header !== '' && !/^[^\s:]+:/.test(header))) return undefined
  const hosts = headers.filter((header) => /^host:/i.test(header)).map((header) => header.slice(5).trim())
  const [host] = hosts
  if (hosts.length !== 1 || host === undefined) return undefined
  const name = nameInAuthority(host)
  if (target.startsWith('/') || target === '*') return name
  const inTarget = /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#]+)/i.exec(target)?.[1]
  return inTarget !== undefined && nameInAuthority(inTarget) === name ? name : undefined
}

/** Of `name:port` or `[address]:port`: a normalized name, or an address in its one spelling. Undefined when it is neither. */
export function nameInAuthority(authority: string): string | undefined {
  const { inBrackets, host = '' } =
    /^(?:\[(?<inBrackets>[0-9a-f:.]+)\]|(?<host>[^:@[\]]+))(?::\d{0,5})?$/i.exec(authority)?.groups ?? {}
  return inBrackets === undefined
    ? (canonicalAddress(host) ?? normalizeName(host))
    : canonicalAddress(inBrackets)
}
