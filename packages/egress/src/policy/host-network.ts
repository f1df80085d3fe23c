import { type Address, isInRange, parseAddress, parseRange, type Range } from './address.ts'
import { translated } from './address-class.ts'
import { normalizeName } from './domain-name.ts'

/** A package registry that the host itself uses. */
export interface Registry {
  readonly host: string
  readonly port: number
}

export interface HostNetworkOptions {
  readonly registries?: readonly Registry[]
  /** Private ranges that rules may open. */
  readonly reachable?: readonly string[]
  readonly isHostAddress: (address: string) => boolean
}

/** What policies need to know about the host's network, whatever a sandbox's policy says. */
export class HostNetwork {
  readonly #registries: readonly Registry[]
  readonly #reachable: readonly Range[]
  readonly #isHostAddress: (address: string) => boolean

  constructor({ registries = [], reachable = [], isHostAddress }: HostNetworkOptions) {
    this.#registries = registries.map(({ host, port }) => ({ host: canonicalHost(host), port }))
    this.#reachable = reachable.map((text) => parseRange(text)).filter((range) => range !== undefined)
    this.#isHostAddress = isHostAddress
  }

  /**
   * Whether the address belongs to this host. A connection to it would reach the host's services behind every firewall.
   */
  isHostAddress(address: Address): boolean {
    return this.#isHostAddress(address.toString()) || this.#isHostAddress(translated(address).toString())
  }

  isReachable(address: Address): boolean {
    return this.#reachable.some((range) => isInRange(address, range))
  }

  /** `host` is a normalized name or a canonical address. Without `port`: on any port. */
  isRegistry(host: string, port?: number): boolean {
    return this.#registries.some(
      (registry) => registry.host === host && (port === undefined || registry.port === port),
    )
  }
}

function canonicalHost(host: string): string {
  const bare = host.replace(/^\[|\]$/g, '')
  return parseAddress(bare)?.toString() ?? normalizeName(bare) ?? bare
}
