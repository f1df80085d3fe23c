import { abortable } from '@dormouse/async'
import type { LimitRestore, SavedBurrow, SnapshotOptions } from '@dormouse/engine'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { guestToolsDir } from '../guest-tools.ts'
import { LONGEST_CHAIN_LAYERS } from '../storage/choose-layers-to-merge.ts'
import { describeSnapshot } from '../storage/describe-snapshot.ts'
import type { Manifest } from '../storage/manifest.ts'
import { improveStored } from './improve-stored.ts'
import { moveMemory, syncMemory } from './move-memory.ts'
import { restoreSnapshot } from './restore-snapshot.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'
import { takeFiles } from './take-files.ts'
import { type TakenSnapshot, type TakeSnapshot, takeSnapshot } from './take-snapshot.ts'

export interface SavedLinuxBurrow extends SavedBurrow {
  readonly burrow?: LinuxBurrow
}

export const withoutLimit: LimitRestore = (_sandboxId, restore) => restore()

/**
 * Saves a burrow and continues its sandbox in a new one, as `leave` says. An error means that nothing was saved. Once
 * the snapshot is on disk, a failure is `resumeError` of the result: the sandbox is saved, but was not resumed.
 */
export async function saveBurrow(
  engine: SnapshotEngine,
  burrow: LinuxBurrow,
  { leave, kind = 'full', keepTimers, limitRestore = withoutLimit, signal, isUnsynced }: SnapshotOptions,
): Promise<SavedLinuxBurrow> {
  if (kind === 'files') return saveFiles(engine, burrow, leave)
  const { manifest, connections, ended, syncError } = await saveAndEnd(engine, burrow, {
    ...{ keepTimers, signal, isUnsynced },
  })
  const saved = { snapshot: describeSnapshot(manifest), connections }
  if (leave === 'gone' || syncError !== undefined) {
    const endError = await errorOf(ended)
    const resumeError = syncError ?? endError
    return { ...saved, ...(resumeError !== undefined && { resumeError }) }
  }
  const { sandboxId } = burrow
  // The saved processes hold their locks until they end.
  if (manifest.volumeLocks.length > 0) await Promise.allSettled([ended])
  const resuming = limitRestore(sandboxId, () =>
    restoreSnapshot(engine, manifest.id, { sandboxId, reseed: false, connections }),
  )
  // The new burrow uses nothing of the old one, so both can happen at once. A call that waits does not wait for the end
  // of the old one, which frees its memory first.
  await Promise.allSettled([resuming, abortable(ended, signal)])
  if (isUnsynced === true) engine.host.unsynced.start(manifest.id)
  try {
    const resumed = await resuming
    if (leave === 'frozen') await freezeOrDestroy(engine, resumed)
    return { ...saved, burrow: resumed }
  } catch (resumeError) {
    return { ...saved, resumeError }
  }
}

/**
 * Does ahead of a full snapshot what can be done while the burrow runs. An abort ends it within some milliseconds; then
 * the burrow runs on, and what was done need not be done again.
 */
export async function prepareSave(
  { host: { failures, arrivals }, dataDir }: SnapshotEngine,
  burrow: LinuxBurrow,
  signal: AbortSignal | undefined,
): Promise<void> {
  await abortable(arrivals.require(burrow.record.parent), signal)
  const toolsDir = guestToolsDir(dataDir, burrow.record.tools)
  const { movedBytes } = await moveMemory(burrow, { toolsDir, failures, signal })
  if (movedBytes > 0 && signal?.aborted !== true) await syncMemory(burrow, signal)
}

/** Post: the snapshot is on disk, unless `isUnsynced`. `ended` settles when the burrow is gone. */
export async function saveAndEnd(
  engine: SnapshotEngine,
  burrow: LinuxBurrow,
  how: Pick<TakeSnapshot, 'keepTimers' | 'isUnsynced' | 'refusesLocks' | 'signal'> = {},
): Promise<Omit<TakenSnapshot, 'leftover'>> {
  const { host, dataDir, dumper, leftovers } = engine
  // The new snapshot shares its memory files. No pause otherwise: until it is being saved, others may destroy it.
  const { parent } = burrow.record
  if (parent !== undefined && host.arrivals.isArriving(parent))
    await abortable(host.arrivals.require(parent), how.signal)
  const toolsDir = guestToolsDir(dataDir, burrow.record.tools)
  const { leftover, ...taken } = await engine.collector.withoutCollecting(() =>
    takeSnapshot(host, { burrow, dumper, toolsDir, movesMemory: true, ...how }),
  )
  leftovers.removeTree(leftover, { sandboxId: burrow.sandboxId, snapshotId: taken.manifest.id })
  taken.ended.catch((error: unknown) => leftovers.destroy(burrow, error))
  await mergeLongChain(engine, taken.manifest)
  return taken
}

/** A sandbox that wakes before upkeep reaches it must not collect so many layers that it cannot be saved any more. */
async function mergeLongChain(engine: SnapshotEngine, { id, sandboxId, layers }: Manifest): Promise<void> {
  if (layers.length <= LONGEST_CHAIN_LAYERS) return
  // The snapshot is complete without it, and the next snapshot tries again.
  await improveStored(engine, id, new AbortController().signal).catch((error: unknown) =>
    engine.host.failures.report(
      'upkeep',
      error,
      { sandboxId, snapshotId: id },
      'file layers were not merged',
    ),
  )
}

async function freezeOrDestroy(engine: SnapshotEngine, burrow: LinuxBurrow): Promise<void> {
  await burrow.guest.settle()
  await burrow.freeze().catch(async (error: unknown) => {
    await engine.destroyBurrow(burrow)
    throw error
  })
}

async function saveFiles(
  { host, collector, leftovers }: SnapshotEngine,
  burrow: LinuxBurrow,
  leave: SnapshotOptions['leave'],
): Promise<SavedLinuxBurrow> {
  const { record, paths } = burrow
  const keepsFiles = leave !== 'gone'
  await host.unsynced.require(record.parent)
  const held = await burrow.holdFiles()
  const take = () => takeFiles(host.layout, { record, paths, keepsFiles })
  const { manifest, syncError } = await collector.withoutCollecting(take).catch(async (error: unknown) => {
    await held.release()
    throw error
  })
  const snapshot = describeSnapshot(manifest)
  if (!keepsFiles) {
    // The snapshot has all of its files, so what could not be removed is removed later.
    await burrow.endAfterSnapshot(manifest.id).catch((error: unknown) => leftovers.destroy(burrow, error))
    return { snapshot, ...(syncError !== undefined && { resumeError: syncError }) }
  }
  await held.release()
  if (leave === 'running') return { snapshot, burrow }
  const resumeError = await errorOf(burrow.freeze())
  return { snapshot, burrow, ...(resumeError !== undefined && { resumeError }) }
}

function errorOf(work: Promise<void>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  )
}
