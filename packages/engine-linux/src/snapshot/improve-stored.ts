import { existsSync } from 'node:fs'
import type { SnapshotId } from '@dormouse/contracts'
import { FOLD_AFTER_MS, improveSnapshot, isFoldedLater } from '../storage/improve-snapshot.ts'
import { makeLayerSums } from '../storage/layer-sums.ts'
import { makeReadAhead } from './read-ahead.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** Most of what was just written is still in the page cache: the limit keeps the CPU free, and no caller waits. */
const SUMS_BYTES_PER_SECOND = 256 * 1024 ** 2

/** Makes a faster version of a stored snapshot, if there is something to gain. Returns whether it did. */
export async function improveStored(
  engine: SnapshotEngine,
  id: SnapshotId,
  signal: AbortSignal,
): Promise<boolean> {
  const { host, dataDir, store, collector } = engine
  const { layout, imageThreads, verified, unsynced } = host
  // Its memory is read as a whole. The next upkeep finds it here.
  if (host.arrivals.isArriving(id)) return false
  await unsynced.require(id)
  // A failure may leave an unused layer.
  let mayLeaveLayers = true
  try {
    mayLeaveLayers = await engine.afterCollecting(() =>
      improveSnapshot(id, {
        layout,
        dataDir,
        store,
        imageThreads,
        verified,
        signal,
        mayFold: engine.mayFold,
      }),
    )
    const { paths } = await store.get(id)
    if (mayLeaveLayers || !existsSync(paths.ahead)) await makeReadAhead(paths, imageThreads)
    return mayLeaveLayers
  } finally {
    if (mayLeaveLayers) await collector.collect()
  }
}

/** Improves a snapshot and makes missing checksums. `again`: upkeep has more to do after this time. */
export async function improveAndSum(
  engine: SnapshotEngine,
  id: SnapshotId,
  { signal, again }: { signal: AbortSignal; again: (afterMs: number) => void },
): Promise<boolean> {
  const isNew = await improveStored(engine, id, signal)
  await makeMissingSums(engine, id, signal)
  const { manifest } = await engine.store.get(id)
  if (isFoldedLater(manifest) && engine.mayFold()) again(FOLD_AFTER_MS)
  else if (manifest.kind === 'full') engine.host.unfolder.prepare()
  return isNew
}

/** Makes checksums for layers of a snapshot that have none yet, so that a later check notices when they change. */
async function makeMissingSums(
  { host, store }: SnapshotEngine,
  id: SnapshotId,
  signal: AbortSignal,
): Promise<void> {
  const { manifest } = await store.get(id)
  const pace = { bytesPerSecond: SUMS_BYTES_PER_SECOND, signal }
  await makeLayerSums(host.layout, manifest.layers, pace).catch(async (error: unknown) => {
    // Throws `not_found` when the snapshot was deleted, and its layers with it.
    await store.get(id)
    throw error
  })
}
