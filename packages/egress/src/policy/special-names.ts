import { parseAddress } from './address.ts'
import { classOf } from './address-class.ts'
import { covers } from './domain-name.ts'

/** Zones that exist in local networks only (RFC 6761, 6762, 8375, 7686, and ICANN's choice of 2024). */
const LOCAL_ZONES = ['local', 'localhost', 'internal', 'home.arpa', 'lan', 'onion', 'invalid', 'test']
const REVERSE = /^((?:\d{1,3}\.){4})in-addr\.arpa$/
const REVERSE_6 = /^((?:[0-9a-f]\.){32})ip6\.arpa$/

/**
 * Names that only a local network can answer: those with one label, those in a local zone, and reverse names of
 * addresses that are not public.
 */
export function isSpecialName(name: string): boolean {
  if (!name.includes('.')) return true
  if (LOCAL_ZONES.some((zone) => name === zone || covers(`*.${zone}`, name))) return true
  if (!name.endsWith('.arpa')) return false
  const address = parseAddress(reversed(name) ?? '')
  return address === undefined || classOf(address).reach !== 'public'
}

function reversed(name: string): string | undefined {
  const four = REVERSE.exec(name)?.[1]
  if (four !== undefined) return four.slice(0, -1).split('.').reverse().join('.')
  const six = REVERSE_6.exec(name)?.[1]
  const digits = six?.split('.').reverse().join('')
  return digits?.match(/.{4}/g)?.join(':')
}
