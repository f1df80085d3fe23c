import { z } from 'zod'

/**
 * A destination that a sandbox may reach: a host name (`*.` for all subdomains) or a range of addresses. Without
 * ports: all ports.
 */
export type AllowRule =
  | { readonly domain: string; readonly ports?: readonly number[] }
  | { readonly cidr: string; readonly ports?: readonly number[] }

const PORTS_MAX = 64
const MAX_PORT = 65_535
const DOMAIN_MAX_CHARACTERS = 253
/** Underscores occur in names of services. */
const DOMAIN =
  /^(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/
/** Resolvers and URL parsers read such names as addresses: `127.1`, `0x7f000001`. */
const LOOKS_LIKE_ADDRESS = /(?:^|\.)(?:\d+|0x[0-9a-f]*)$/
const WITH_PORTS = /^(?:\[([^\]]*)\]|([^:]*))(?::(.*))?$/

/** Pre: `allowRuleProblem(text)` is undefined. */
export function parseAllowRule(text: string): AllowRule {
  const rule = read(text)
  if (typeof rule === 'string') throw new Error(`${text} ${rule}`)
  return rule
}

/** Why `text` is not a rule. Undefined if it is one. */
export function allowRuleProblem(text: string): string | undefined {
  const rule = read(text)
  return typeof rule === 'string' ? rule : undefined
}

/** Why `text` is not a rule of addresses that are denied. A name can be resolved elsewhere, so it would deny nothing. */
export function denyRuleProblem(text: string): string | undefined {
  const rule = read(text)
  if (typeof rule === 'string') return rule
  return 'cidr' in rule ? undefined : 'must be an address or a range: code can reach a name by its address'
}

function read(text: string): AllowRule | string {
  // An IPv6 address without brackets cannot have ports: its colons could not be told apart.
  const bare = cidrOf(text)
  if (bare !== undefined) return { cidr: bare }
  const [, bracketed, plain, portsText] = WITH_PORTS.exec(text) ?? []
  const target = bracketed ?? plain
  if (target === undefined) return EXPECTED
  const ports = portsText === undefined ? undefined : readPorts(portsText)
  if (typeof ports === 'string') return ports
  const onPorts = ports === undefined ? {} : { ports }
  const cidr = cidrOf(target)
  if (cidr !== undefined) return { cidr, ...onPorts }
  if (bracketed !== undefined) return 'must have an IPv6 address in its brackets'
  if (target.includes('/')) return 'is not a range of addresses'
  const domain = target.toLowerCase().replace(/\.$/, '')
  if (domain === '*') return 'would allow everything: use the mode `public`'
  if (!DOMAIN.test(domain) || domain.length > DOMAIN_MAX_CHARACTERS) return EXPECTED
  if (LOOKS_LIKE_ADDRESS.test(domain)) return 'looks like an address, but is not written as one'
  return { domain, ...onPorts }
}

const EXPECTED =
  'must be a host name (`example.com`, `*.example.com`), an address or a range (`203.0.113.0/24`), optionally followed by a colon and ports (`example.com:443`, `[2001:db8::/32]:80,443`)'

function readPorts(text: string): number[] | string {
  const words = text.split(',')
  if (words.length > PORTS_MAX) return `must not have more than ${PORTS_MAX} ports`
  const isPort = (word: string) => /^[1-9]\d{0,4}$/.test(word) && Number(word) <= MAX_PORT
  if (!words.every(isPort))
    return `must have ports from 1 to ${MAX_PORT} after the colon, separated by commas`
  return [...new Set(words.map(Number))]
}

function cidrOf(text: string): string | undefined {
  if (z.ipv4().safeParse(text).success) return `${text}/32`
  if (z.ipv6().safeParse(text).success) return `${text.toLowerCase()}/128`
  if (z.cidrv4().safeParse(text).success || z.cidrv6().safeParse(text).success) return text.toLowerCase()
  return undefined
}
