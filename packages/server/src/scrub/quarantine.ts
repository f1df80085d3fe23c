import { DormouseError, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { StoredPart } from '@dormouse/engine'
import type { Damage, QuarantineRows } from '../store/quarantine-rows.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { SnapshotRows } from '../store/snapshot-rows.ts'

/** Stands for the damaged part in rows of `verify`, which does not name it. */
const VERIFIED = 'verify'

/** The head of a sandbox is damaged. */
export interface SandboxDamage {
  readonly snapshotId: SnapshotId
  readonly reason: string
  readonly foundAt: string
  /** The newest older snapshot that is not known to be damaged. */
  readonly rollbackTo: SnapshotId | undefined
}

export interface QuarantineParts {
  readonly rows: QuarantineRows
  readonly snapshots: SnapshotRows
  readonly now: () => number
}

/** Snapshots and templates known to be damaged. They are not restored until they are found intact again. */
export class Quarantine {
  readonly #parts: QuarantineParts
  /** Usually true, and then views and wakes need not ask the database. */
  #isEmpty: boolean

  constructor(parts: QuarantineParts) {
    this.#parts = parts
    this.#isEmpty = parts.rows.snapshots().length === 0 && parts.rows.templates().length === 0
  }

  find(id: SnapshotId | undefined): Damage | undefined {
    return this.#isEmpty || id === undefined ? undefined : this.#parts.rows.findSnapshot(id)
  }

  /** Damage of the head of a sandbox. */
  damageOf(row: Pick<SandboxRow, 'id' | 'head' | 'forkedFrom'>): SandboxDamage | undefined {
    const { head } = row
    const damage = this.find(head)
    if (damage === undefined || head === undefined) return undefined
    const { reason, foundAt } = damage
    return {
      snapshotId: head,
      reason,
      foundAt: new Date(foundAt).toISOString(),
      rollbackTo: this.#olderGood(head, row),
    }
  }

  /** Throws `snapshot_unusable` when the snapshot that a sandbox is to be restored from is damaged. */
  require(row: Pick<SandboxRow, 'id' | 'name' | 'forkedFrom'>, id: SnapshotId | undefined): void {
    const damage = this.find(id)
    if (damage === undefined || id === undefined) return
    const rollbackTo = this.#olderGood(id, row)
    throw new DormouseError('snapshot_unusable', `The snapshot cannot be restored: ${damage.reason}.`, {
      hint:
        rollbackTo === undefined
          ? 'There is no older snapshot to go back to. Put the damaged file back from a backup of the data directory, then verify the snapshot.'
          : `Go back to the newest older snapshot that is not damaged: \`dormouse rollback ${row.name ?? row.id} ${rollbackTo}\`. Or put the damaged file back from a backup, then verify the snapshot.`,
      details: {
        reason: damage.reason,
        snapshotId: id,
        foundAt: new Date(damage.foundAt).toISOString(),
        ...(rollbackTo !== undefined && { rollbackTo }),
      },
    })
  }

  /** Throws `snapshot_unusable` when sandboxes of this template would be made from damaged files. */
  requireTemplate(name: string): void {
    const damage = this.#isEmpty ? undefined : this.#parts.rows.findTemplate(name)
    if (damage === undefined) return
    throw new DormouseError('snapshot_unusable', `Template ${name} cannot be used: ${damage.reason}.`, {
      hint: 'Put the damaged file back from a backup of the data directory, then start a scrub: `dormouse scrub start`.',
      details: { reason: damage.reason, template: name, foundAt: new Date(damage.foundAt).toISOString() },
    })
  }

  /** Adds everything that shares a damaged part. Returns the snapshots that this part had not damaged before. */
  add(part: StoredPart, reason: string): SnapshotId[] {
    const { rows, now } = this.#parts
    const damage = { reason, foundAt: now() }
    this.#isEmpty = false
    for (const name of part.templates) rows.addTemplate(name, part.key, damage)
    return part.snapshots.filter((id) => rows.addSnapshot(id, part.key, damage))
  }

  /** Adds a snapshot that `verify` found damaged. */
  addVerified(id: SnapshotId, reason: string): boolean {
    this.#isEmpty = false
    return this.#parts.rows.addSnapshot(id, VERIFIED, { reason, foundAt: this.#parts.now() })
  }

  /** These parts were read and are intact. */
  lift(parts: readonly Pick<StoredPart, 'key'>[]): void {
    if (this.#isEmpty) return
    for (const { key } of parts) this.#parts.rows.deletePart(key)
  }

  liftVerified(id: SnapshotId): void {
    if (!this.#isEmpty) this.#parts.rows.deleteOfSnapshot(id, VERIFIED)
  }

  /** Removes entries of parts that no longer exist. */
  keepParts(keys: ReadonlySet<string>): void {
    this.#parts.rows.keepParts((part) => part === VERIFIED || keys.has(part))
  }

  #olderGood(
    id: SnapshotId,
    { id: sandbox, forkedFrom }: { id: SandboxId; forkedFrom: SandboxId | undefined },
  ): SnapshotId | undefined {
    const { rows, snapshots } = this.#parts
    const row = snapshots.get(id)
    return row && rows.findOlderGood(row, [sandbox, forkedFrom ?? sandbox])
  }
}
