import { isInRange, parseAddress, parseRange } from '../policy/address.ts'
import { covers, normalizeName } from '../policy/domain-name.ts'

/**
 * Applies NO_PROXY as most programs do: names with everything below them, addresses, ranges and `*`, each with an
 * optional port.
 */
export function isWithoutProxy(noProxy: readonly string[], hosts: readonly string[], port: number): boolean {
  return noProxy.some((entry) => {
    const [, bare = entry, entryPort] = /^(.*[^:]):(\d+)$/.exec(entry.trim()) ?? [undefined, entry.trim()]
    const isAddressWithColons = parseRange(entry.trim()) !== undefined
    if (!isAddressWithColons && entryPort !== undefined && Number(entryPort) !== port) return false
    const pattern = isAddressWithColons ? entry.trim() : bare.replace(/^\[|\]$/g, '')
    return pattern === '*' || hosts.some((host) => matches(pattern, host))
  })
}

function matches(pattern: string, host: string): boolean {
  const address = parseAddress(host)
  if (address !== undefined) {
    const range = parseRange(pattern)
    return range !== undefined && isInRange(address, range)
  }
  const name = normalizeName(pattern.replace(/^\*?\./, ''))
  return name !== undefined && (host === name || covers(`*.${name}`, host))
}
