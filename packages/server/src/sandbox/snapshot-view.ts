import type { SnapshotAnswer } from '@dormouse/contracts/http'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

export function snapshotView(
  { snapshots, quarantine }: Pick<SandboxDependencies, 'snapshots' | 'quarantine'>,
  row: SnapshotRow,
): SnapshotAnswer {
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
