import type { Located } from '@dormouse/cluster'
import { isSandboxId } from '@dormouse/contracts'
import type { AuthenticatedKey } from '../access/access.ts'
import type { StoredAccess } from '../access/stored-access.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { Peers } from '../cluster/peers.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import type { SshCluster } from './connection-parts.ts'
import type { RelayTarget } from './relay.ts'

export interface SshElsewhereOptions {
  readonly cluster: Cluster
  readonly peers: Peers
  readonly sandboxes: Sandboxes
  readonly access: Pick<StoredAccess, 'find'>
}

/** SSH to sandboxes of other hosts: by id or by whole name. */
export class SshElsewhere implements SshCluster {
  readonly #options: SshElsewhereOptions

  constructor(options: SshElsewhereOptions) {
    this.#options = options
  }

  find(ref: string, callers: readonly AuthenticatedKey[]): RelayTarget | undefined {
    const { cluster, sandboxes, peers } = this.#options
    for (const caller of callers) {
      if (sandboxes.find(ref) !== undefined || sandboxes.findNamed(ref, caller.keyId) !== undefined)
        return undefined
      const located = this.#locate(ref, caller)
      const host = located && cluster.hosts.find(located.entry.host)
      if (located === undefined || host?.ssh === undefined || !cluster.isAlive(host.id)) continue
      return {
        ...{ host: new URL(host.address).hostname, ...host.ssh, sandboxId: located.id },
        token: peers.tokenFor(caller.keyId),
      }
    }
    return undefined
  }

  verify(token: string): AuthenticatedKey | undefined {
    const { peers, access } = this.#options
    return access.find(peers.verify(token) ?? '')
  }

  #locate(ref: string, { keyId, isAdmin }: AuthenticatedKey): Located | undefined {
    const { directory } = this.#options.cluster
    if (isSandboxId(ref)) {
      const located = directory.find(ref)
      return located !== undefined && (isAdmin || located.entry.owner === keyId) ? located : undefined
    }
    for (const located of directory.all())
      if (located.entry.name === ref && located.entry.owner === keyId) return located
    return undefined
  }
}
