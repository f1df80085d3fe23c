import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
export type Range = readonly [Address, number]

const FOUR_PARTS = /^\d{1,3}(?:\.\d{1,3}){3}$/
const COMPATIBLE_FORM = /^::((?:\d{1,3}\.){3}\d{1,3})$/

/**
 * Parses an address as the kernel prints it. IPv4-mapped IPv6 (`::ffff:1.2.3.4`) becomes IPv4, because the kernel dials
 * that. Returns undefined for everything else: short and octal forms (`127.1`, `0177.0.0.1`) and addresses with a zone.
 */
export function parseAddress(text: string): Address | undefined {
  if (text.includes('%')) return undefined
  // Checked with a regular expression first: ipaddr.js throws on bad input, which takes longer than the rest of a
  // decision.
  if (!text.includes(':')) {
    const isFourParts = FOUR_PARTS.test(text) && ipaddr.IPv4.isValidFourPartDecimal(text)
    return isFourParts ? ipaddr.IPv4.parse(text) : undefined
  }
  if (!ipaddr.IPv6.isValid(text)) return undefined
  // ipaddr.js parses `::1.2.3.4` as `::ffff:1.2.3.4`; to the kernel these are different addresses.
  const compatible = COMPATIBLE_FORM.exec(text)?.[1]
  if (compatible !== undefined)
    return ipaddr.fromByteArray([...new Array<number>(12).fill(0), ...ipaddr.IPv4.parse(compatible).octets])
  const address = ipaddr.IPv6.parse(text)
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address
}

/** Returns the one spelling of an address, so that addresses can be compared as text. */
export function canonicalAddress(text: string): string | undefined {
  return parseAddress(text)?.toString()
}

/** Parses `203.0.113.0/24`. A single address is a range of one. Returns undefined for anything else. */
export function parseRange(text: string): Range | undefined {
  const [base, prefix, ...rest] = text.split('/')
  const address = parseAddress(base ?? '')
  if (address === undefined || rest.length > 0) return undefined
  const bits = address.kind() === 'ipv4' ? 32 : 128
  if (prefix === undefined) return [address, bits]
  // The prefix length of `::ffff:1.2.3.4/96` counts 96 bits that parsing removed.
  const mappedBits = bits === 32 && base?.includes(':') ? 96 : 0
  const length = /^\d{1,3}$/.test(prefix) ? Number(prefix) - mappedBits : -1
  return length >= 0 && length <= bits ? [address, length] : undefined
}

export function isInRange(address: Address, [base, prefix]: Range): boolean {
  if (address.kind() !== base.kind()) return false
  return address.match(base as never, prefix)
}

/** The first and the last address of a range. */
export function edgesOf([base, prefix]: Range): [Address, Address] {
  const bytes = base.toByteArray()
  const edge = (fill: 0 | 1) =>
    bytes.map((byte, at) => {
      const kept = Math.min(8, Math.max(0, prefix - at * 8))
      const mask = (0xff << (8 - kept)) & 0xff
      return (byte & mask) | (fill === 1 ? ~mask & 0xff : 0)
    })
  return [ipaddr.fromByteArray(edge(0)), ipaddr.fromByteArray(edge(1))]
}
