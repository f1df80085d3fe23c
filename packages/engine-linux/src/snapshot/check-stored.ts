import type { SnapshotId } from '@dormouse/contracts'
import type { CheckPartOptions, PartCheck } from '@dormouse/engine'
import { whileReading } from '../storage/snapshot-readers.ts'
import {
  allParts,
  checkPart,
  isSamePlace,
  type LinuxPart,
  partsOfSnapshots,
} from '../storage/stored-parts.ts'
import { damaged, refuseNewerCriu, verifySnapshot } from '../storage/verify-snapshot.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** Reads all of a stored snapshot. Throws `snapshot_unusable` when it could not be restored here. */
export function verifyStored({ host, store, dumper }: SnapshotEngine, id: SnapshotId): Promise<void> {
  return whileReading(host.layout.snapshot(id).dir, async () => {
    const { paths, manifest } = await store.get(id)
    await store.checkLayers(manifest)
    if (manifest.kind === 'full') {
      refuseNewerCriu(manifest, dumper.criuVersion)
      await verifySnapshot(paths, manifest)
    }
    for (const part of partsOfSnapshots(host.layout, [manifest])) {
      const { damage } = await checkPart(part, {})
      if (damage !== undefined) throw damaged(damage)
    }
  })
}

/** Lists the parts of one snapshot, or of all snapshots and templates. */
export async function listParts(
  { host, dataDir, store }: SnapshotEngine,
  id?: SnapshotId,
): Promise<LinuxPart[]> {
  if (id !== undefined) return partsOfSnapshots(host.layout, [(await store.get(id)).manifest])
  return allParts(host.layout, dataDir, await store.list())
}

/**
 * Checks a part, and checks its present place if it was deleted or replaced while it was read: then it is not damaged.
 */
export async function checkListedPart(
  engine: SnapshotEngine,
  part: LinuxPart,
  options: CheckPartOptions,
): Promise<PartCheck> {
  const check = await checkPart(part, options)
  if (check.damage === undefined) return check
  const current = (await listParts(engine)).find(({ key }) => key === part.key)
  if (current === undefined) return { readBytes: check.readBytes }
  return isSamePlace(current, part) ? check : checkPart(current, options)
}
