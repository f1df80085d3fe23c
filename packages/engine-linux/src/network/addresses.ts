/** Addresses of a burrow's network, seen from inside; the same in every burrow. native/src/network.c sets them up. */

/** The resolver, which answers at port 53 while a gate is open. */
export const RESOLVER = '198.18.0.1'

/** 198.18.0.2 */
const OWN_IPV4 = 0xc612_0002
/** fd64:6f72:6d6f::2 */
const OWN_IPV6 = [0xfd64_6f72, 0x6d6f_0000, 0, 2]
/** 127.18.0.1: connections of the server to ports inside come from there, so their other end is outside. */
const SERVER_IPV4 = 0x7f12_0001

/** Takes one word (IPv4) or four (IPv6) as the kernel stores them: bytes in network order, read in host order. */
export function isOwnAddress(words: readonly number[]): boolean {
  const numbers = words.map(fromNetwork)
  const [first = 0, second, third, last = 0] = numbers
  if (words.length === 1) return isOwnIpv4(first)
  const isLow = first === 0 && second === 0
  if (isLow && third === 0xffff) return isOwnIpv4(last)
  return (isLow && third === 0 && last <= 1) || OWN_IPV6.every((number, index) => number === numbers[index])
}

function isOwnIpv4(address: number): boolean {
  const isLoopback = address >>> 24 === 127 && address !== SERVER_IPV4
  return address === 0 || isLoopback || address === OWN_IPV4
}

function fromNetwork(word: number): number {
  return new DataView(Uint32Array.of(word).buffer).getUint32(0)
}
