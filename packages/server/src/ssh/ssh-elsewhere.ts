import type { Located } from '@dormouse/cluster'
import { isSandboxId } from '@dormouse/contracts'
import type { AuthenticatedKey } from '../access/access.ts'
import type { StoredAccess } from '../access/stored-access.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { Peers } from '../cluster/peers.ts'
import type { Sandboxes } from '../sandbox/sandboxes.ts'
import type { SshCluster } from './connection-parts.ts'
import { beginsWith } from './find-sandbox.ts'
import type { RelayTarget } from './relay.ts'

export interface SshElsewhereOptions {
  readonly cluster: Cluster
  readonly peers: Peers
  readonly sandboxes: Sandboxes
  readonly access: Pick<StoredAccess, 'find'>
}

/** SSH to sandboxes of other hosts: by id or name, or by a beginning of either that no other sandbox has. */
export class SshElsewhere implements SshCluster {
  readonly #options: SshElsewhereOptions

  constructor(options: SshElsewhereOptions) {
    this.#options = options
  }

  find(ref: string, callers: readonly AuthenticatedKey[]): RelayTarget | undefined {
    const { sandboxes } = this.#options
    for (const caller of callers) {
      if (sandboxes.find(ref) !== undefined || sandboxes.findNamed(ref, caller.keyId) !== undefined)
        return undefined
      const target = this.#targetOf(this.#locate(ref, caller), caller)
      if (target !== undefined) return target
    }
    for (const { id, row, isDeleted } of sandboxes.all())
      if (
        !isDeleted &&
        beginsWith({ id, name: row.name }, ref) &&
        callers.some((caller) => mayUse(caller, row.owner))
      )
        return undefined
    const found = callers.flatMap((caller) =>
      this.#beginning(ref, caller).map((located) => ({ located, caller })),
    )
    const [first] = found
    if (first === undefined || found.some(({ located }) => located.id !== first.located.id)) return undefined
    return this.#targetOf(first.located, first.caller)
  }

  async bring(ref: string, callers: readonly AuthenticatedKey[]): Promise<void> {
    const { cluster, sandboxes } = this.#options
    for (const caller of callers) {
      if (sandboxes.find(ref) !== undefined || sandboxes.findNamed(ref, caller.keyId) !== undefined) return
      const located = this.#locate(ref, caller)
      if (located === undefined || cluster.isAlive(located.entry.host)) continue
      await cluster.locate(located.id, { owner: undefined, isFresh: false })
      return
    }
  }

  beginningWith(ref: string, caller: AuthenticatedKey): { id: string; name?: string | undefined }[] {
    return this.#beginning(ref, caller).map(({ id, entry: { name } }) => ({ id, name }))
  }

  verify(token: string): AuthenticatedKey | undefined {
    const { peers, access } = this.#options
    return access.find(peers.verify(token) ?? '')
  }

  #targetOf(located: Located | undefined, caller: AuthenticatedKey): RelayTarget | undefined {
    const { cluster, peers } = this.#options
    const host = located && cluster.hosts.find(located.entry.host)
    if (located === undefined || host?.ssh === undefined || !cluster.isAlive(host.id)) return undefined
    return {
      ...{ host: new URL(host.address).hostname, ...host.ssh, sandboxId: located.id },
      token: peers.tokenFor(caller.keyId),
    }
  }

  #beginning(ref: string, caller: AuthenticatedKey): Located[] {
    const { cluster, sandboxes } = this.#options
    if (ref === '') return []
    return [...cluster.directory.all()].filter(
      ({ id, entry }) =>
        beginsWith({ id, name: entry.name }, ref) &&
        mayUse(caller, entry.owner) &&
        entry.state !== 'deleting' &&
        sandboxes.find(id) === undefined,
    )
  }

  #locate(ref: string, { keyId, isAdmin }: AuthenticatedKey): Located | undefined {
    const { directory } = this.#options.cluster
    if (isSandboxId(ref)) {
      const located = directory.find(ref)
      return located !== undefined && mayUse({ keyId, isAdmin }, located.entry.owner) ? located : undefined
    }
    for (const located of directory.all())
      if (located.entry.name === ref && located.entry.owner === keyId) return located
    return undefined
  }
}

function mayUse({ keyId, isAdmin }: Pick<AuthenticatedKey, 'keyId' | 'isAdmin'>, owner: string): boolean {
  return isAdmin || owner === keyId
}
