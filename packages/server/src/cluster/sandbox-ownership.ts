import { settledWithin } from '@dormouse/async'
import type { Ownership } from '../sandbox/ownership.ts'
import { leaseLost, movedAway, notPublished } from './cluster-errors.ts'
import type { OwnedSandboxes } from './owned-sandboxes.ts'
import type { Replication } from './replication.ts'

/** A host that does not reach NATS for longer loses its lease. */
const PUBLISH_MS = 10_000

export interface OwnershipParts {
  readonly owned: OwnedSandboxes
  readonly replication: Replication
  /** Whether this host has a lease and knows which sandboxes are its own. */
  readonly isHeld: () => boolean
}

/** What a host of a cluster must ask before it acts for a sandbox. */
export function ownershipOf({ owned, replication, isHeld }: OwnershipParts): Ownership {
  const ownership: Ownership = {
    require: (id) => {
      if (!isHeld()) throw leaseLost()
      if (!owned.has(id)) throw movedAway(id)
    },
    claim: async (row) => {
      if (!isHeld()) throw leaseLost()
      await owned.claim(row)
    },
    claimName: async (row, name) => {
      await owned.claimName(row, name)
      if (isHeld()) return
      // Another host may have continued the sandbox before the name was claimed.
      await owned.returnName(row, name).catch(() => {})
      throw leaseLost()
    },
    returnName: (row, name) => owned.returnName(row, name),
    published: async (id) => {
      if (!(await settledWithin(owned.flush(id), PUBLISH_MS))) throw notPublished()
      ownership.require(id)
    },
    release: (row) => owned.release(row),
    isReplicated: (id) => replication.isReplicated(id),
  }
  return ownership
}
