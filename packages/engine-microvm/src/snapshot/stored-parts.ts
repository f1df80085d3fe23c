import type { SnapshotId } from '@dormouse/contracts'
import type { CheckPartOptions, PartCheck, StoredPart } from '@dormouse/engine'
import type { MicrovmSnapshotStore } from './snapshot-store.ts'

/** What a snapshot added is one part. Of one snapshot, or of all. */
export async function listParts(store: MicrovmSnapshotStore, snapshotId?: SnapshotId): Promise<StoredPart[]> {
  const ids =
    snapshotId === undefined ? (await store.list()).map(({ id }) => id) : [(await store.get(snapshotId)).id]
  return ids.map((id) => ({ key: `microvm/${id}`, kind: 'memory', snapshots: [id], templates: [] }))
}

export async function checkPart(
  store: MicrovmSnapshotStore,
  { snapshots: [id] }: StoredPart,
  { signal }: CheckPartOptions,
): Promise<PartCheck> {
  signal?.throwIfAborted()
  if (id === undefined) return { readBytes: 0 }
  try {
    return { readBytes: await store.verify(id) }
  } catch (error) {
    return { readBytes: 0, damage: (error as Error).message }
  }
}
