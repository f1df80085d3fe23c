import { DormouseError, type SnapshotId } from '@dormouse/contracts'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** Of one owner, waiting ones included: a check reads all of a snapshot, and everybody shares the disk. */
const CHECKS_PER_OWNER = 4

type CheckParts = Pick<SandboxDependencies, 'engine' | 'snapshots' | 'quarantine'>

interface Check {
  readonly owner: string
  readonly done: Promise<void>
}

/** Reads whole snapshots on request, one at a time. A damaged one is quarantined, one that is whole leaves the quarantine. */
export class SnapshotChecks {
  readonly #parts: CheckParts
  readonly #checks = new Map<SnapshotId, Check>()
  /** Settles, always well, with the last one in the line. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(parts: CheckParts) {
    this.#parts = parts
  }

  /** Throws `snapshot_unusable` with the reason, `not_found` when it is deleted meanwhile. Who asks for what is being checked already shares that. */
  async check({ id, owner }: Pick<SnapshotRow, 'id' | 'owner'>): Promise<void> {
    const known = this.#checks.get(id)
    if (known !== undefined) return known.done
    const ofOwner = [...this.#checks.values()].filter((check) => check.owner === owner)
    if (ofOwner.length >= CHECKS_PER_OWNER)
      throw new DormouseError('overloaded', 'Too many snapshots of this key are being checked.', {
        hint: 'Check them one after the other.',
        details: { reason: 'checks', retryAfterMs: 2_000 },
      })
    const done = this.#last.then(() => this.#read(id)).finally(() => this.#checks.delete(id))
    this.#last = done.catch(() => {})
    this.#checks.set(id, { owner, done })
    return done
  }

  async #read(id: SnapshotId): Promise<void> {
    const { engine, snapshots, quarantine } = this.#parts
    try {
      await engine.verifySnapshot(id)
      quarantine.lift(await engine.listParts(id))
      quarantine.liftVerified(id)
    } catch (error) {
      // Files that go while they are read look like damage.
      if (snapshots.get(id) === undefined)
        throw new DormouseError('not_found', `There is no snapshot ${id}.`, { cause: error })
      if (error instanceof DormouseError && error.details?.['damaged'] === true)
        quarantine.addVerified(id, String(error.details['reason']))
      throw error
    }
    // Its template is not read with it, and may be what is damaged.
    const row = snapshots.get(id)
    if (row !== undefined)
      quarantine.require({ id: row.sandboxId, name: undefined, forkedFrom: undefined }, id)
  }
}
