import { createRequire } from 'node:module'
import { SharedDeadline } from '@dormouse/async'
import { Dialer } from '../dial/dialer.ts'
import { Edge } from '../edge/edge.ts'
import { HttpRelay } from '../edge/http-relay.ts'
import { DenialCollector } from '../gate/denial-collector.ts'
import type { EndAddon } from '../gate/end-addon.ts'
import type { Interceptor } from '../gate/interceptor.ts'
import { CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SANDBOX, KEPT_MAX_BYTES } from '../limits.ts'
import { Ipv6Route } from '../names/ipv6-route.ts'
import type { NameSources } from '../names/resolver.ts'
import { Upstream } from '../names/upstream.ts'
import { HostNetwork } from '../policy/host-network.ts'
import { ConnectionSlots } from './connection-slots.ts'
import type { EgressListeners } from './egress-listeners.ts'
import type { EgressOptions } from './egress-options.ts'
import { HostAddresses } from './host-addresses.ts'

/** What all sandboxes share in the worker: name servers, dialer, and knowledge of the host's network. */
export class HostEgress {
  readonly hostNetwork: HostNetwork
  readonly dialer: Dialer
  readonly interceptor: Interceptor | undefined
  readonly relay = new HttpRelay()
  readonly sources: NameSources
  readonly denials: DenialCollector
  readonly onFailedLookup: EgressListeners['onFailedLookup']
  readonly connections: ConnectionSlots
  /** Whether this host must not act for its sandboxes: another host may do so now. */
  readonly isFenced: () => boolean
  readonly endAddon: EndAddon | undefined
  readonly keptBudget = { leftBytes: KEPT_MAX_BYTES }
  readonly #hostAddresses = new HostAddresses()

  readonly onDataAsleep: EgressListeners['onDataAsleep']
  readonly onLost: EgressListeners['onLost']

  constructor(options: EgressOptions, { onDenial, onFailedLookup, onDataAsleep, onLost }: EgressListeners) {
    this.hostNetwork = new HostNetwork({
      ...options,
      isHostAddress: (address) => this.#hostAddresses.has(address),
    })
    this.dialer = new Dialer(options.proxy)
    const fence = options.fence && new SharedDeadline(options.fence)
    this.isFenced = () => fence?.hasPassed === true
    this.connections = new ConnectionSlots({
      max: options.maxConnectionsTotal ?? CONNECTIONS_MAX,
      maxPerSandbox: options.maxConnections ?? CONNECTIONS_MAX_PER_SANDBOX,
    })
    this.endAddon =
      options.endAddon === undefined ? undefined : createRequire(import.meta.url)(options.endAddon)
    this.interceptor =
      options.ca === undefined
        ? undefined
        : new Edge({ authority: options.ca, upstreamCa: options.upstreamCa, relay: this.relay })
    this.denials = new DenialCollector(onDenial)
    this.onFailedLookup = onFailedLookup
    this.onDataAsleep = onDataAsleep
    this.onLost = onLost
    const upstream = new Upstream(options.resolvers === undefined ? {} : { resolvers: options.resolvers })
    const ipv6Route = new Ipv6Route()
    this.sources = {
      upstream,
      isRegistry: (name) => this.hostNetwork.isRegistry(name),
      isResolvedByProxy: (name) => this.dialer.isResolvedByProxy(name, !upstream.isSilent),
      hasIpv6: () => ipv6Route.exists(),
    }
  }

  /** Addresses of this host besides those of its interfaces, such as a public one that is translated to it. */
  setHostAddresses(addresses: readonly string[]): void {
    this.#hostAddresses.give(addresses)
  }
}
