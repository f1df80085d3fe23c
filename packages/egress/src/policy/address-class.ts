import ipaddr from 'ipaddr.js'
import { type Address, isInRange, parseRange, type Range } from './address.ts'

/**
 * `public`: on the public internet. `private`: in a network that the operator may open. `forbidden`: no rule can open
 * it. `kind` is the word shown to people.
 */
export interface AddressClass {
  readonly reach: 'public' | 'private' | 'forbidden'
  readonly kind: string
}

const PUBLIC: AddressClass = { reach: 'public', kind: 'public' }

/** Metadata services of clouds, which hand out credentials. Most are link-local; these are not. */
const METADATA: readonly Range[] = [
  '168.63.129.16', // Azure: public by its range, and answered by the hypervisor
  '100.100.100.200', // Alibaba Cloud
  '192.0.0.192', // Oracle Cloud
  'fd00:ec2::/32', // Amazon EC2
  'fd20:ce::254', // Google Cloud
  'fd00:42::42', // Scaleway
  'fd00:a9fe:a9fe::/48', // Akamai (Linode)
].map((text) => parseRange(text)!)
/** All assigned public IPv6 addresses are in this range. The rest of what ipaddr.js calls unicast is unassigned. */
const GLOBAL_UNICAST = parseRange('2000::/3')!
/** `::1.2.3.4`: IPv4-compatible addresses, deprecated in 2006. */
const COMPATIBLE = parseRange('::/96')!
/** The only prefix of NAT64 translators to the public IPv4 internet (RFC 6052). */
const NAT64 = parseRange('64:ff9b::/96')!

/**
 * Keyed by the names of ipaddr.js. Ranges that are neither here nor unicast count as `private`: closed unless opened.
 */
const KINDS: Record<string, AddressClass> = {
  loopback: { reach: 'forbidden', kind: 'loopback' },
  linkLocal: { reach: 'forbidden', kind: 'link-local' },
  unspecified: { reach: 'forbidden', kind: 'unspecified' },
  multicast: { reach: 'forbidden', kind: 'multicast' },
  broadcast: { reach: 'forbidden', kind: 'broadcast' },
  ipv4Mapped: { reach: 'forbidden', kind: 'IPv4 in IPv6' },
  rfc6145: { reach: 'forbidden', kind: 'IPv4 in IPv6' },
  // Both embed an IPv4 address that a router of the host's network may unwrap. Both are deprecated (RFC 7526, RFC
  // 8190).
  '6to4': { reach: 'forbidden', kind: '6to4' },
  teredo: { reach: 'forbidden', kind: 'Teredo' },
  discard: { reach: 'forbidden', kind: 'discard' },
  private: { reach: 'private', kind: 'private' },
  uniqueLocal: { reach: 'private', kind: 'private' },
  deprecatedSiteLocal: { reach: 'private', kind: 'private' },
  carrierGradeNat: { reach: 'private', kind: 'shared (CGNAT)' },
}

export function classOf(address: Address): AddressClass {
  if (METADATA.some((range) => isInRange(address, range))) return { reach: 'forbidden', kind: 'metadata' }
  if (isInRange(address, NAT64)) return embedded(address)
  const range = address.range()
  if (range === 'unicast') {
    if (address.kind() === 'ipv4' || isInRange(address, GLOBAL_UNICAST)) return PUBLIC
    if (isInRange(address, COMPATIBLE)) return { reach: 'forbidden', kind: 'IPv4 in IPv6' }
    return { reach: 'private', kind: 'unassigned' }
  }
  return KINDS[range] ?? { reach: 'private', kind: 'reserved' }
}

/**
 * The address that a connection really reaches. Behind a NAT64 translator that is the IPv4 address in the last four
 * bytes.
 */
export function translated(address: Address): Address {
  return isInRange(address, NAT64) ? ipaddr.fromByteArray(address.toByteArray().slice(12)) : address
}

/** The embedded IPv4 address decides. A private one cannot be opened in this form. */
function embedded(address: Address): AddressClass {
  const inner = classOf(translated(address))
  return inner.reach === 'public' ? PUBLIC : { reach: 'forbidden', kind: `${inner.kind} in NAT64` }
}
