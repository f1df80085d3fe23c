import { networkInterfaces } from 'node:os'
import { Dialer } from '../dial/dialer.ts'
import { Edge } from '../edge/edge.ts'
import { type Denied, DeniedLog } from '../gate/denied-log.ts'
import type { Interceptor } from '../gate/interceptor.ts'
import { CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SANDBOX, OWN_ADDRESSES_TTL_MS } from '../limits.ts'
import type { NameSources } from '../names/resolver.ts'
import { Upstream } from '../names/upstream.ts'
import { WayOut } from '../names/way-out.ts'
import { canonicalAddress } from '../policy/address.ts'
import { Surroundings } from '../policy/surroundings.ts'
import type { EgressOptions } from './egress-options.ts'

/** What all sandboxes share in the worker: the host's name servers, its way out, what is known about its network. */
export class HostEgress {
  readonly surroundings: Surroundings
  readonly dialer: Dialer
  readonly interceptor: Interceptor | undefined
  readonly sources: NameSources
  readonly denied: DeniedLog
  readonly maxConnectionsPerSandbox: number
  #connections = 0
  #ownAddresses: ReadonlySet<string> = new Set()
  #ownAddressesGiven: readonly string[] = []
  #ownAddressesUntilMs = 0

  constructor(options: EgressOptions, onDenied: (denied: Denied) => void) {
    this.surroundings = new Surroundings({ ...options, isOwn: (address) => this.#isOwn(address) })
    this.dialer = new Dialer(options.proxy)
    this.maxConnectionsPerSandbox = options.maxConnections ?? CONNECTIONS_MAX_PER_SANDBOX
    this.interceptor =
      options.ca === undefined
        ? undefined
        : new Edge({ authority: options.ca, upstreamCa: options.upstreamCa })
    this.denied = new DeniedLog(onDenied)
    const upstream = new Upstream(options.resolvers === undefined ? {} : { resolvers: options.resolvers })
    const wayOut = new WayOut()
    this.sources = {
      upstream,
      isRegistry: (name) => this.surroundings.isRegistry(name),
      isLeftToProxy: (name) => this.dialer.isLeftToProxy(name, !upstream.isSilent),
      hasIpv6: () => wayOut.hasIpv6(),
    }
  }

  /** Addresses that are this host's beside those of its interfaces, such as a public one that is translated to it. */
  setOwnAddresses(addresses: readonly string[]): void {
    this.#ownAddressesGiven = addresses
    this.#ownAddressesUntilMs = 0
  }

  enter(): boolean {
    if (this.#connections >= CONNECTIONS_MAX) return false
    this.#connections++
    return true
  }

  leave(): void {
    this.#connections--
  }

  #isOwn(address: string): boolean {
    if (performance.now() >= this.#ownAddressesUntilMs) {
      const ofInterfaces = Object.values(networkInterfaces()).flatMap(
        (list) => list?.map((one) => one.address) ?? [],
      )
      const all = [...ofInterfaces, ...this.#ownAddressesGiven].map((text) =>
        canonicalAddress(text.split('%')[0] ?? ''),
      )
      this.#ownAddresses = new Set(all.filter((text) => text !== undefined))
      this.#ownAddressesUntilMs = performance.now() + OWN_ADDRESSES_TTL_MS
    }
    return this.#ownAddresses.has(address)
  }
}
