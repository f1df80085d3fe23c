import { Dialer } from '../dial/dialer.ts'
import { Edge } from '../edge/edge.ts'
import { HttpRelay } from '../edge/http-relay.ts'
import { type Denied, DeniedLog } from '../gate/denied-log.ts'
import type { Interceptor } from '../gate/interceptor.ts'
import { CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SANDBOX } from '../limits.ts'
import type { NameSources } from '../names/resolver.ts'
import { Upstream } from '../names/upstream.ts'
import { WayOut } from '../names/way-out.ts'
import { Surroundings } from '../policy/surroundings.ts'
import { ConnectionPool } from './connection-pool.ts'
import type { EgressOptions } from './egress-options.ts'
import { OwnAddresses } from './own-addresses.ts'

/** What all sandboxes share in the worker: the host's name servers, its way out, what is known about its network. */
export class HostEgress {
  readonly surroundings: Surroundings
  readonly dialer: Dialer
  readonly interceptor: Interceptor | undefined
  readonly relay = new HttpRelay()
  readonly sources: NameSources
  readonly denied: DeniedLog
  readonly connections: ConnectionPool
  readonly #ownAddresses = new OwnAddresses()

  constructor(options: EgressOptions, onDenied: (denied: Denied) => void) {
    this.surroundings = new Surroundings({ ...options, isOwn: (address) => this.#ownAddresses.has(address) })
    this.dialer = new Dialer(options.proxy)
    this.connections = new ConnectionPool({
      max: options.maxConnectionsTotal ?? CONNECTIONS_MAX,
      maxPerSandbox: options.maxConnections ?? CONNECTIONS_MAX_PER_SANDBOX,
    })
    this.interceptor =
      options.ca === undefined
        ? undefined
        : new Edge({ authority: options.ca, upstreamCa: options.upstreamCa, relay: this.relay })
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
    this.#ownAddresses.give(addresses)
  }
}
