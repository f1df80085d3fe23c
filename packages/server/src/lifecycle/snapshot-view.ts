import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { LifecycleParts } from './parts.ts'
import type { SnapshotView } from './service.ts'

export function snapshotView(
  { snapshots, quarantine }: Pick<LifecycleParts, 'snapshots' | 'quarantine'>,
  row: SnapshotRow,
): SnapshotView {
  const damage = quarantine.find(row.id)
  return {
    id: row.id,
    sandboxId: row.sandboxId,
    name: row.name,
    kind: row.kind,
    parentId: row.parent,
    template: row.template,
    createdAt: new Date(row.createdAt).toISOString(),
    isHead: snapshots.isHead(row.id),
    damage: damage && { reason: damage.reason, foundAt: new Date(damage.foundAt).toISOString() },
    bytes: { images: row.imageBytes, memory: row.memoryBytes },
  }
}
