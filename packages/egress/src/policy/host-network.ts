import { type Address, isInRange, parseAddress, parseRange, type Range } from './address.ts'
import { translated } from './address-class.ts'
import { normalizeName } from './domain-name.ts'

/** A place that the host itself installs packages from. */
export interface Registry {
  readonly host: string
  readonly port: number
}

export interface HostNetworkOptions {
  readonly registries?: readonly Registry[]
  /** Ranges that are not public, and that rules may name all the same. */
  readonly reachable?: readonly string[]
  readonly isHostAddress: (address: string) => boolean
}

/** What is true of the host, whatever a sandbox's policy says. */
export class HostNetwork {
  readonly #registries: readonly Registry[]
  readonly #reachable: readonly Range[]
  readonly #isHostAddress: (address: string) => boolean

  constructor({ registries = [], reachable = [], isHostAddress }: HostNetworkOptions) {
    this.#registries = registries.map(({ host, port }) => ({ host: canonicalHost(host), port }))
    this.#reachable = reachable.map((text) => parseRange(text)).filter((range) => range !== undefined)
    this.#isHostAddress = isHostAddress
  }

  /** Of this host: then it is its services that would be reached, behind every firewall. */
  isHostAddress(address: Address): boolean {
    return this.#isHostAddress(address.toString()) || this.#isHostAddress(translated(address).toString())
  }

  isReachable(address: Address): boolean {
    return this.#reachable.some((range) => isInRange(address, range))
  }

  /** `host` is a normalized name or a canonical address. Without a port: on any. */
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
