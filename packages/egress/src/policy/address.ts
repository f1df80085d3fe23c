import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
export type Range = readonly [Address, number]

const FOUR_PARTS = /^\d{1,3}(?:\.\d{1,3}){3}$/
const COMPATIBLE_FORM = /^::((?:\d{1,3}\.){3}\d{1,3})$/

/**
 * Reads an address as the kernel prints it. IPv4 in IPv6 clothes (`::ffff:1.2.3.4`) becomes IPv4, because that is what the kernel dials.
 * Undefined for whatever else: short and octal forms (`127.1`, `0177.0.0.1`) are not addresses here, and a zone is never needed.
 */
export function parseAddress(text: string): Address | undefined {
  if (text.includes('%')) return undefined
  // Asked for by their look first: ipaddr.js finds out by throwing, which takes longer than all the rest of a decision.
  if (!text.includes(':')) {
    const isFourParts = FOUR_PARTS.test(text) && ipaddr.IPv4.isValidFourPartDecimal(text)
    return isFourParts ? ipaddr.IPv4.parse(text) : undefined
  }
  if (!ipaddr.IPv6.isValid(text)) return undefined
  // ipaddr.js reads `::1.2.3.4` as if it were `::ffff:1.2.3.4`; to the kernel these are two addresses.
  const compatible = COMPATIBLE_FORM.exec(text)?.[1]
  if (compatible !== undefined)
    return ipaddr.fromByteArray([...new Array<number>(12).fill(0), ...ipaddr.IPv4.parse(compatible).octets])
  const address = ipaddr.IPv6.parse(text)
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address
}

/** One spelling for each address, so that two of them can be compared as text. */
export function canonicalAddress(text: string): string | undefined {
  return parseAddress(text)?.toString()
}

/** Reads `203.0.113.0/24`; a lone address is a range of one. Undefined when it is neither. */
export function parseRange(text: string): Range | undefined {
  const [base, prefix, ...rest] = text.split('/')
  const address = parseAddress(base ?? '')
  if (address === undefined || rest.length > 0) return undefined
  const bits = address.kind() === 'ipv4' ? 32 : 128
  if (prefix === undefined) return [address, bits]
  // A prefix of `::ffff:1.2.3.4/96` counts bits that are gone after parsing.
  const clothed = bits === 32 && base?.includes(':') ? 96 : 0
  const length = /^\d{1,3}$/.test(prefix) ? Number(prefix) - clothed : -1
  return length >= 0 && length <= bits ? [address, length] : undefined
}

export function isInRange(address: Address, [base, prefix]: Range): boolean {
  if (address.kind() !== base.kind()) return false
  return address.match(base as never, prefix)
}

/** The last address of a range; the first is its base with the host bits cleared. */
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
