import ipaddr from 'ipaddr.js'
import { type Address, isInRange, parseRange, type Range } from './address.ts'

/**
 * `public`: anybody on the internet may have it. `private`: of a network that the operator may open. `forbidden`: no rule reaches it.
 * `kind` is the word for people.
 */
export interface AddressClass {
  readonly reach: 'public' | 'private' | 'forbidden'
  readonly kind: string
}

const PUBLIC: AddressClass = { reach: 'public', kind: 'public' }

/** Where clouds tell a machine its secrets, outside of the link-local range that holds most of them. */
const METADATA: readonly Range[] = [
  '168.63.129.16', // Azure: public by its range, and answered by the hypervisor
  '100.100.100.200', // Alibaba Cloud
  '192.0.0.192', // Oracle Cloud
  'fd00:ec2::/32', // Amazon EC2
  'fd20:ce::254', // Google Cloud
  'fd00:42::42', // Scaleway
  'fd00:a9fe:a9fe::/48', // Akamai (Linode)
].map((text) => parseRange(text)!)
/** IPv6 has been given out from here only; the rest of what ipaddr.js calls unicast belongs to nobody. */
const GLOBAL_UNICAST = parseRange('2000::/3')!
/** `::1.2.3.4`: IPv4-compatible, given up in 2006. */
const COMPATIBLE = parseRange('::/96')!
/** The one prefix under which a translator may stand for the public IPv4 internet (RFC 6052). */
const NAT64 = parseRange('64:ff9b::/96')!

/** How ipaddr.js names them, and what we make of that. What is not listed and not unicast is `private`: closed unless opened. */
const KINDS: Record<string, AddressClass> = {
  loopback: { reach: 'forbidden', kind: 'loopback' },
  linkLocal: { reach: 'forbidden', kind: 'link-local' },
  unspecified: { reach: 'forbidden', kind: 'unspecified' },
  multicast: { reach: 'forbidden', kind: 'multicast' },
  broadcast: { reach: 'forbidden', kind: 'broadcast' },
  ipv4Mapped: { reach: 'forbidden', kind: 'IPv4 in IPv6' },
  rfc6145: { reach: 'forbidden', kind: 'IPv4 in IPv6' },
  // Both carry an IPv4 address that a router of the host's network may unwrap; both were given up (RFC 7526, RFC 8190).
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

/** What a connection to `address` ends at: behind a translator that is the IPv4 address in its last four bytes. */
export function translated(address: Address): Address {
  return isInRange(address, NAT64) ? ipaddr.fromByteArray(address.toByteArray().slice(12)) : address
}

/** Behind a translator it is the IPv4 address that is reached, so that one counts; a private one cannot be opened in this form. */
function embedded(address: Address): AddressClass {
  const inner = classOf(translated(address))
  return inner.reach === 'public' ? PUBLIC : { reach: 'forbidden', kind: `${inner.kind} in NAT64` }
}
