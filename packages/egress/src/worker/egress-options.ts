import type { ProxyOptions } from '../dial/dialer.ts'
import type { CertificateAndKey } from '../edge/certificate.ts'
import type { Registry } from '../policy/host-network.ts'

export interface EgressOptions {
  /** `1.2.3.4` or `1.2.3.4:53`; the host's own when left out. */
  readonly resolvers?: readonly string[]
  readonly proxy?: ProxyOptions
  /** Where the host itself installs packages from: reachable with their port in mode `public`, also at private addresses. */
  readonly registries?: readonly Registry[]
  /** Ranges that are not public, and that rules may name all the same. */
  readonly reachable?: readonly string[]
  /** Connections that one sandbox may have at a time; `CONNECTIONS_MAX_PER_SANDBOX` when left out. */
  readonly maxConnections?: number
  /** Connections that all sandboxes together may have; `CONNECTIONS_MAX` when left out. */
  readonly maxConnectionsTotal?: number
  /** What sandboxes with secrets trust. Without it, connections that would need a secret are reset. */
  readonly ca?: CertificateAndKey
  /** Roots that servers may have beside those of the host, PEM. */
  readonly upstreamCa?: string
}
