import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { HOST_ADDRESSES_TTL_MS } from '../limits.ts'
import { canonicalAddress } from '../policy/address.ts'

/** A leaf of the kernel's routing table: `|-- 192.0.2.2`, and `/32 host LOCAL` below it. */
const LOCAL_IPV4 = /\|-- ([\d.]+)\n(?:\s+\/\d+ .*\n)*?\s+\/32 host LOCAL/g

/**
 * The addresses of this host, read again every second, because interfaces come and go. Also reads the kernel's tables:
 * os.networkInterfaces() omits interfaces without a carrier, such as an empty bridge, but the kernel answers at their
 * addresses.
 */
export class HostAddresses {
  readonly #now: () => number
  #given: readonly string[] = []
  #addresses: ReadonlySet<string> = new Set()
  #validUntilMs = 0

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Adds addresses besides those of the interfaces, such as a public one that is translated to this host. */
  give(addresses: readonly string[]): void {
    this.#given = addresses
    this.#validUntilMs = 0
  }

  /** Pre: `address` is canonical. */
  has(address: string): boolean {
    if (this.#now() >= this.#validUntilMs) {
      const all = [...ofInterfaces(), ...localIpv4(), ...localIpv6(), ...this.#given]
      const spelled = all.map((text) => canonicalAddress(text.split('%')[0] ?? ''))
      this.#addresses = new Set(spelled.filter((text) => text !== undefined))
      this.#validUntilMs = this.#now() + HOST_ADDRESSES_TTL_MS
    }
    return this.#addresses.has(address)
  }
}

function ofInterfaces(): string[] {
  return Object.values(networkInterfaces()).flatMap((list) => list?.map(({ address }) => address) ?? [])
}

function localIpv4(): string[] {
  return [...read('/proc/net/fib_trie').matchAll(LOCAL_IPV4)].map(([, address = '']) => address)
}

function localIpv6(): string[] {
  return read('/proc/net/if_inet6')
    .split('\n')
    .filter((line) => /^[0-9a-f]{32} /.test(line))
    .map((line) => line.slice(0, 32).match(/.{4}/g)?.join(':') ?? '')
}

/** Returns an empty text where the kernel has no such table, for instance without IPv6. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
