/** Addresses of a burrow's network, seen from inside; the same in every burrow. native/src/network.c sets them up. */
export const OWN_IPV4 = '198.18.0.2'
export const OWN_IPV6 = 'fd64:6f72:6d6f::2'
/** Where connections of the server to ports inside come from. Not the burrow's own: their other end is outside. */
export const SERVER_IPV4 = '127.18.0.1'
export const SERVER_IPV6 = 'fd64:6f72:6d6f::1'
/** The resolver, which answers at port 53 while a gate is open. */
export const RESOLVER = '198.18.0.1'

const SERVER_IPV4_NUMBER = 0x7f12_0001
const OWN_IPV4_NUMBER = 0xc612_0002
const OWN_IPV6_NUMBERS = [0xfd64_6f72, 0x6d6f_0000, 0, 2]

/** Takes one word (IPv4) or four (IPv6) as the kernel stores them: bytes in network order, read in host order. */
export function isOwnAddress(words: readonly number[]): boolean {
  const numbers = words.map(fromNetwork)
  const [first = 0, second, third, last = 0] = numbers
  if (words.length === 1) return isOwnIpv4(first)
  const isLow = first === 0 && second === 0
  if (isLow && third === 0xffff) return isOwnIpv4(last)
  return (
    (isLow && third === 0 && last <= 1) ||
    OWN_IPV6_NUMBERS.every((number, index) => number === numbers[index])
  )
}

function isOwnIpv4(address: number): boolean {
  const isLoopback = address >>> 24 === 127 && address !== SERVER_IPV4_NUMBER
  return address === 0 || isLoopback || address === OWN_IPV4_NUMBER
}

function fromNetwork(word: number): number {
  return new DataView(Uint32Array.of(word).buffer).getUint32(0)
}
