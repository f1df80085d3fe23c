import type { SnapshotRow, SnapshotRows } from '../store/snapshot-rows.ts'
import type { SnapshotView } from './service.ts'

export function snapshotView(snapshots: SnapshotRows, row: SnapshotRow): SnapshotView {
  return {
    id: row.id,
    sandboxId: row.sandboxId,
    name: row.name,
    kind: row.kind,
    parentId: row.parent,
    template: row.template,
    createdAt: new Date(row.createdAt).toISOString(),
    isHead: snapshots.isHead(row.id),
    bytes: { images: row.imageBytes, memory: row.memoryBytes },
  }
}
