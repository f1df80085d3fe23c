import type { DirectoryEntry } from '@dormouse/cluster'
import { isSandboxId, isSnapshotId } from '@dormouse/contracts'
import { rowView } from '../sandbox/sandbox-view.ts'
import type { SandboxRow } from '../store/sandbox-rows.ts'

/** Throws for an entry of another host that this one cannot use: lists show all entries, and one must not end a list. */
export function checkEntry(id: string, { row, replica }: DirectoryEntry): void {
  // Ids become names of directories.
  const isNamed = isSandboxId(id) && (replica === undefined || isSnapshotId(replica.snapshotId))
  const { id: own, metadata, limits } = row as SandboxRow
  const isRow = own === id && typeof metadata === 'object' && typeof limits.memoryBytes === 'number'
  if (!isNamed || !isRow) throw new Error('the entry is not that of a sandbox')
  rowView(row as SandboxRow)
}
