import type { ProxyOptions } from '../dial/dialer.ts'
import type { CertificateAndKey } from '../edge/certificate.ts'
import type { Registry } from '../policy/host-network.ts'

export interface EgressOptions {
  /** `1.2.3.4` or `1.2.3.4:53`. Default: the host's name servers. */
  readonly resolvers?: readonly string[]
  readonly proxy?: ProxyOptions
  /** Package registries of the host. Reachable on their port in mode `public`, also at private addresses. */
  readonly registries?: readonly Registry[]
  /** Private ranges that rules may open. */
  readonly reachable?: readonly string[]
  /** Connections of one sandbox. Default: `CONNECTIONS_MAX_PER_SANDBOX`. */
  readonly maxConnections?: number
  /** Connections of all sandboxes. Default: `CONNECTIONS_MAX`. */
  readonly maxConnectionsTotal?: number
  /** The authority that sandboxes with secrets trust. Without it, connections that need a secret are reset. */
  readonly ca?: CertificateAndKey
  /** Roots to trust besides those of the host, PEM. */
  readonly upstreamCa?: string
  /** Memory of a `SharedDeadline`: when it has passed, nothing goes out any more. Without it there is no deadline. */
  readonly fence?: SharedArrayBuffer
  /** Path of the addon that lets connections outlive their burrow (`EndAddon`). Without it they end with it. */
  readonly endAddon?: string
}
