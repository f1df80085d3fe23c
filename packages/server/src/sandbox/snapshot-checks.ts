import { Mutex } from '@dormouse/async'
import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** Per owner, waiting checks included: a check reads a whole snapshot, and all owners share the disk. */
const CHECKS_PER_OWNER = 4

type CheckParts = Pick<SandboxDependencies, 'engine' | 'snapshots' | 'quarantine'>

interface Check {
  readonly owner: string
  readonly done: Promise<void>
}

/**
 * Verifies whole snapshots on request, one at a time. A damaged snapshot enters the quarantine, an intact one leaves
 * it.
 */
export class SnapshotChecks {
  readonly #deps: CheckParts
  readonly #checks = new Map<SnapshotId, Check>()
  readonly #mutex = new Mutex()

  constructor(deps: CheckParts) {
    this.#deps = deps
  }

  /**
   * Throws `snapshot_unusable` with the reason, `not_found` when it is deleted meanwhile. Callers share a check under
   * way.
   */
  async check({ id, owner }: Pick<SnapshotRow, 'id' | 'owner'>): Promise<void> {
    const known = this.#checks.get(id)
    if (known !== undefined) return known.done
    const ofOwner = [...this.#checks.values()].filter((check) => check.owner === owner)
    if (ofOwner.length >= CHECKS_PER_OWNER)
      throw new DormouseError('overloaded', 'Too many snapshots of this key are being checked.', {
        hint: 'Check them one after the other.',
        details: { reason: 'checks', retryAfterMs: 2_000 },
      })
    const done = this.#mutex.run(() => this.#read(id)).finally(() => this.#checks.delete(id))
    this.#checks.set(id, { owner, done })
    return done
  }

  async #read(id: SnapshotId): Promise<void> {
    const { engine, snapshots, quarantine } = this.#deps
    try {
      await engine.verifySnapshot(id)
      quarantine.lift(await engine.listParts(id))
      quarantine.liftVerified(id)
    } catch (error) {
      // Files that are deleted while they are read look like damage.
      if (snapshots.get(id) === undefined)
        throw new DormouseError('not_found', `There is no snapshot ${id}.`, { cause: error })
      if (error instanceof DormouseError && error.details?.['damaged'] === true)
        quarantine.addVerified(id, String(error.details['reason']))
      throw error
    }
    // The check does not read the template, which may be damaged.
    const row = snapshots.get(id)
    if (row !== undefined)
      quarantine.require({ id: row.sandboxId, name: undefined, forkedFrom: undefined }, id)
  }
}
