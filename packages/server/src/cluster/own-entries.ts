import type { Directory, Located, Names } from '@dormouse/cluster'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { SandboxDependencies } from '../sandbox/sandbox-dependencies.ts'
import type { OwnedSandboxes } from './owned-sandboxes.ts'

export interface OwnEntriesOptions {
  readonly directory: Directory
  readonly names: Names
  readonly owned: OwnedSandboxes
  readonly hostId: string
  readonly rows: SandboxDependencies['rows']
}

const CLAIMS_AT_ONCE = 64
/** A write of this host under its lease before may come between. */
const CLAIM_TRIES = 5

/** Finds out for a new lease which sandboxes are still this host's. */
export class OwnEntries {
  readonly #options: OwnEntriesOptions

  constructor(options: OwnEntriesOptions) {
    this.#options = options
  }

  /**
   * Claims the entries of this host for its new lease. A host that takes one over at the same time wins or loses. Pre:
   * `directory.catchUp` has resolved since the lease was taken.
   */
  async claimAll(): Promise<void> {
    const { directory, owned, hostId, rows } = this.#options
    const mine = [...directory.all()].filter(({ entry }) => entry.host === hostId)
    const known = new Set(rows.all().map(({ id }) => String(id)))
    const next = mine[Symbol.iterator]()
    const work = async () => {
      for (const located of { [Symbol.iterator]: () => next })
        await this.#claim(located, known.has(located.id))
    }
    await Promise.all(Array.from({ length: CLAIMS_AT_ONCE }, work))
    // Of two claims at the same moment NATS may have acknowledged both: see `Directory.stands`.
    await directory.catchUp()
    for (const { id } of [...owned.all()]) if (directory.find(id)?.entry.host !== hostId) owned.forget(id)
  }

  /**
   * Another host owns the sandbox, or has deleted it. An entry that is missing proves nothing: NATS may have lost it, and
   * a host never removes a sandbox for that.
   */
  async isGone(id: SandboxId): Promise<boolean> {
    const { directory, owned, hostId } = this.#options
    if (owned.find(id) !== undefined) return false
    const located = await directory.read(id)
    return located === undefined ? await directory.wasRemoved(id) : located.entry.host !== hostId
  }

  async #claim(located: Located, hasRow: boolean, tries = CLAIM_TRIES): Promise<void> {
    const { directory, owned, hostId } = this.#options
    const { entry, id } = located
    if (tries === 0)
      throw new DormouseError('cluster_unavailable', 'NATS does not let this host claim its sandboxes.')
    // The server ended before the sandbox was created.
    if (!hasRow && entry.state === 'creating') {
      if (await directory.remove(located)) await this.#releaseName(located)
      return
    }
    const claimed = await directory.change(located, { ...entry, epoch: owned.epoch })
    if (claimed !== undefined) return owned.hold(claimed)
    const now = await directory.read(id)
    if (now?.entry.host === hostId) await this.#claim(now, hasRow, tries - 1)
  }

  async #releaseName({ id, entry: { name, owner } }: Located): Promise<void> {
    if (name !== undefined) await this.#options.names.release(id, { name, owner })
  }
}
