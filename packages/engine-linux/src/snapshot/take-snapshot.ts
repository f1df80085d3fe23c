import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { abortable, allOf } from '@dormouse/async'
import { DormouseError, type LayerId, newLayerId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { ParkedConnections } from '@dormouse/engine'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { type BurrowPaths, type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { requireFewHeld } from '../image/dump-limits.ts'
import { removeRemapLinks } from '../image/link-remaps.ts'
import { PageWorker } from '../image/page-worker.ts'
import { DumpImages } from '../image-thread/dump-images.ts'
import type { ImageThread } from '../image-thread/image-thread.ts'
import { encodeManifest, type FullManifest, readManifest } from '../storage/manifest.ts'
import {
  explainNoSpace,
  moveToLayer,
  publishSnapshot,
  syncLayer,
  UNFINISHED,
} from '../storage/publish-snapshot.ts'
import { findVolumeLocks, type VolumeLock } from '../volume/volume-locks.ts'
import { type DumpProcess, dumpDeadlineMs } from './dump-process.ts'
import type { Dumper } from './dumper.ts'
import { dumpCutOff, explainDumpFailure } from './explain-criu.ts'
import { type FinishedImages, type FinishImages, finishImages } from './finish-images.ts'
import { freezeForDump } from './freeze-for-dump.ts'
import { wasLeftStopped } from './interrupted-dump.ts'
import { isWorthMoving, moveMemory } from './move-memory.ts'
import { recordSaveIntent, undoSave } from './save-intent.ts'
import type { SnapshotHost } from './snapshot-host.ts'
import { findWaits, holdSleeps } from './watch-timers.ts'

export interface TakeSnapshot {
  readonly burrow: LinuxBurrow
  readonly dumper: Dumper
  /** The directory that the burrow sees as /.dormouse. */
  readonly toolsDir: string
  /** Where the finished snapshot goes; among the engine's own snapshots by default. */
  readonly into?: string
  readonly layersDir?: string
  /** See `SnapshotOptions.keepTimers`. */
  readonly keepTimers?: boolean | undefined
  /** Whether it returns before the snapshot is on disk; the caller then starts `UnsyncedSnapshots.start`. */
  readonly isUnsynced?: boolean | undefined
  /** Whether much memory is moved into its file first, instead of being dumped and then moved. */
  readonly movesMemory?: boolean
  /** Whether a write lock on a volume prevents it: only one of several sandboxes that continue could have it. */
  readonly refusesLocks?: boolean | undefined
  /** See `SnapshotOptions.signal`. CRIU's part cannot be interrupted. */
  readonly signal?: AbortSignal | undefined
}

export interface TakenSnapshot {
  readonly manifest: FullManifest
  /** What a restore for the same sandbox can continue. */
  readonly connections: ParkedConnections
  /** Directory with the dump as CRIU made it. It has no further use, may be large, and takes a while to remove. */
  readonly leftover: string
  /**
   * Settles when nothing of the burrow is left. Freeing a gigabyte of memory takes a while; the next burrow can start
   * meanwhile.
   */
  readonly ended: Promise<void>
  /** The snapshot exists, but the disk refused to sync its name: a power cut may undo it. */
  readonly syncError?: unknown
}

/** Where the parts of a snapshot go. */
interface SavePlan {
  readonly id: SnapshotId
  readonly final: SnapshotPaths
  /** Holds `raw` and `work` until the snapshot is finished. */
  readonly unfinished: string
  /** The dump as CRIU writes it. */
  readonly raw: string
  /** The snapshot being made. */
  readonly work: SnapshotPaths
  readonly layerId: LayerId
  readonly layer: string
}

/**
 * Saves a burrow and ends it. Its processes stay stopped until the snapshot is complete, and on disk unless
 * `isUnsynced`; only then do they end. If a step fails, what was written is removed, the processes continue, and the
 * error says why.
 */
export function takeSnapshot(host: SnapshotHost, take: TakeSnapshot): Promise<TakenSnapshot> {
  // Processes that wait for memory do not freeze.
  return take.burrow.withHeadroom(() => saveBurrow(host, take))
}

async function saveBurrow(host: SnapshotHost, take: TakeSnapshot): Promise<TakenSnapshot> {
  const { burrow, dumper, toolsDir, keepTimers = false, movesMemory = false, isUnsynced, signal } = take
  signal?.throwIfAborted()
  const plan = planSave(host, take)
  const { id, final, unfinished } = plan
  let isDumped = false
  let intent = Promise.resolve()
  let saved: FinishedImages | undefined
  // The thread starts while CRIU dumps the processes.
  host.imageThreads.prepare()
  // It makes stopped processes look like traced ones. Without one nothing is awaited here: a destroy that comes next must
  // find the agent told already.
  if (burrow.moving !== undefined) await burrow.moving.stop()
  const isWorth = movesMemory ? isWorthMoving(burrow) : undefined
  await burrow.quiesce()
  const worker = new PageWorker()
  try {
    if (await isWorth) {
      const { failures } = host
      await moveMemory(burrow, { toolsDir, failures, signal, isUnsynced, isSaving: signal === undefined })
    }
    // The disk works while CRIU does. Files move only when the intent is on disk.
    const saving = await prepareSave(burrow, plan)
    intent = saving.intent
    const dumped = await dumpProcesses(host, burrow, await dumper.take(), {
      ...{ imagesDir: plan.raw, keepTimers, signal },
    })
    isDumped = true
    signal?.throwIfAborted()
    saved = await host.imageThreads.use((thread) =>
      saveDump(host, take, { plan, thread, worker, dumped, intent }),
    )
    signal?.throwIfAborted()
    await publish(host, take, plan, worker)
    host.verified.remember(final, saved.manifest)
    // Not waited for: the worker is idle, and takes a moment to end.
    void worker[Symbol.asyncDispose]()
    return { ...saved, leftover: unfinished, ended: endBurrow(burrow, id) }
  } catch (error) {
    const isWriting = saved === undefined
    const workerEnded = worker[Symbol.asyncDispose]()
    // One that only waits for the disk may take long to end, and changes nothing any more.
    await Promise.allSettled([intent, isWriting ? workerEnded : undefined])
    const finishedId = await undoAndResume(host, burrow, { rawDir: plan.raw, isDumped })
    if (take.isUnsynced && finishedId !== id) await host.unsynced.unmark(id)
    if (finishedId === undefined) throw explainNoSpace(error, 'The disk is full; the sandbox runs on.')
    const ended = endBurrow(burrow, finishedId)
    // The snapshot that is finished may also be one of an earlier attempt.
    if (finishedId === id && saved !== undefined)
      return { ...saved, leftover: unfinished, ended, syncError: error }
    const manifest = await readManifest(host.layout.snapshot(finishedId).manifest)
    if (manifest.kind !== 'full') throw error
    return { manifest, connections: [], leftover: unfinished, ended, syncError: error }
  }
}

async function publish(
  { unsynced }: SnapshotHost,
  { burrow, isUnsynced = false, signal }: TakeSnapshot,
  { id, work, final }: SavePlan,
  worker: PageWorker,
): Promise<void> {
  if (isUnsynced) await unsynced.mark(id)
  // A snapshot that is on disk may rely only on layers that are.
  else {
    const onDisk = allOf([worker.sync([work.dir]), unsynced.require(burrow.record.parent)])
    await abortable(onDisk, signal)
    signal?.throwIfAborted()
  }
  await publishSnapshot(work.dir, final.dir, { isSynced: !isUnsynced })
}

function planSave({ layout }: SnapshotHost, { into, layersDir = layout.layersDir }: TakeSnapshot): SavePlan {
  const id = newSnapshotId()
  const final = into === undefined ? layout.snapshot(id) : snapshotPaths(into)
  const unfinished = join(dirname(final.dir), `${UNFINISHED}${id}`)
  const layerId = newLayerId()
  return {
    id,
    final,
    unfinished,
    raw: join(unfinished, 'raw'),
    work: snapshotPaths(join(unfinished, 'snapshot')),
    layerId,
    layer: join(layersDir, layerId),
  }
}

/** Returns the promise of an intent on disk, not yet settled. */
async function prepareSave(
  burrow: LinuxBurrow,
  { id, final, unfinished, raw, work, layer }: SavePlan,
): Promise<{ intent: Promise<void> }> {
  await requireFewHeld(await burrow.pids())
  await requireOwnFiles(burrow.paths)
  const intent = recordSaveIntent(burrow.paths, {
    ...{ snapshotId: id, final: final.dir, work: unfinished, layer },
  })
  // Awaited before files move; until then a rejection is not unhandled.
  intent.catch(() => {})
  await mkdir(raw, { recursive: true, mode: 0o700 })
  await mkdir(work.dir, { mode: 0o700 })
  return { intent }
}

type Dumped = Pick<FinishImages, 'dumpedAtMs' | 'waits' | 'sleeps' | 'parkedEnds'>

/** Post: the burrow is frozen and its processes are stopped, so neither they nor their files change. */
async function dumpProcesses(
  { failures }: SnapshotHost,
  burrow: LinuxBurrow,
  dump: DumpProcess,
  {
    imagesDir,
    keepTimers,
    signal,
  }: { imagesDir: string; keepTimers: boolean; signal: AbortSignal | undefined },
): Promise<Dumped> {
  const { first, freezerDir, limits } = burrow
  // A snapshot without a deadline is better than none.
  const withoutTimers = (error: unknown) => {
    const fields = { sandboxId: burrow.sandboxId, burrowId: burrow.id }
    failures.report('timer', error, fields, 'the timers of a burrow were not saved')
    return undefined
  }
  const waits = keepTimers ? await findWaits(burrow).catch(withoutTimers) : undefined
  const ready = allOf([burrow.usage(), dump.allowMemory(limits.memoryBytes), freezeForDump(burrow, signal)])
  const [{ memoryBytes }] = await ready.catch((error: unknown) => {
    dump.cancel()
    throw error
  })
  const dumpedAtMs = Date.now()
  const sleeps = (waits && (await holdSleeps(waits).catch(withoutTimers))) ?? []
  const deadlineMs = dumpDeadlineMs(memoryBytes)
  const hasVolumes = burrow.record.volumes.length > 0
  const [parkedEnds, result] = await allOf([
    burrow.connections.park(),
    dump.run({ first, imagesDir, freezerDir, deadlineMs, hasVolumes }),
  ])
  if (result.isCutOff) throw dumpCutOff()
  if (result.exitCode !== 0) throw explainDumpFailure(result.output)
  return { dumpedAtMs, waits, sleeps, parkedEnds }
}

/** Makes the snapshot in `work` from the dump and the burrow's files. Only the layer is synced, unless `isUnsynced`. */
async function saveDump(
  { layout }: SnapshotHost,
  { burrow, dumper, toolsDir, isUnsynced, refusesLocks = false }: TakeSnapshot,
  save: { plan: SavePlan; thread: ImageThread; worker: PageWorker; dumped: Dumped; intent: Promise<void> },
): Promise<FinishedImages> {
  const { thread, worker, dumped, intent } = save
  const { id, raw, work, layerId, layer } = save.plan
  const { volumesDir } = layout
  const { volumes: mounts } = burrow.record
  const pids = await burrow.pids()
  const images = await DumpImages.read(thread, raw)
  const volumeFiles = await images.detachFromVolumes({ mounts, volumesDir })
  const volumeLocks = await findVolumeLocks(mounts, { firstPid: burrow.first.pid, pids })
  // Parent and children can all hold a lock for reading.
  const lock = volumeLocks.find(({ type }) => type === 'WRITE')
  if (refusesLocks && lock !== undefined) throw locked(lock)
  await images.refuseLoss(pids)
  await intent
  const hasFiles = await moveToLayer(burrow.paths.upper, layer)
  // The disk works while the images are being rewritten.
  const filesOnDisk = hasFiles && !isUnsynced ? syncLayer(worker, layer) : Promise.resolve()
  // Awaited below; until then a rejection is not unhandled.
  filesOnDisk.catch(() => {})
  const finished = await finishImages({
    ...{ id, burrow, toolsDir, volumeFiles, volumeLocks, volumesDir, raw, work, worker, images },
    ...dumped,
    criuVersion: dumper.criuVersion,
    layers: [...(hasFiles ? [layerId] : []), ...burrow.record.layers],
    ownLayer: hasFiles ? layer : undefined,
  })
  await writeFile(work.manifest, encodeManifest(finished.manifest), { flag: 'wx', mode: 0o600 })
  await filesOnDisk
  return finished
}

function locked({ path }: VolumeLock): DormouseError {
  const reason = `a process holds a lock for writing on ${path}, on a volume, which only one sandbox can have`
  return new DormouseError('snapshot_refused', `The sandbox cannot be forked: ${reason}.`, {
    hint: 'End the lock, or detach the volume from the sandbox and attach it again after the fork.',
    details: { reason },
  })
}

function endBurrow(burrow: LinuxBurrow, id: SnapshotId): Promise<void> {
  const ended = burrow.endAfterSnapshot(id)
  // The caller awaits it later; until then a rejection is not unhandled.
  ended.catch(() => {})
  return ended
}

/**
 * After a failure: gives the burrow its files back and lets it continue, whatever else fails. Returns the id of the
 * snapshot when it is finished after all; then the burrow has to end.
 */
async function undoAndResume(
  { failures, imageThreads }: SnapshotHost,
  burrow: LinuxBurrow,
  { rawDir, isDumped }: { rawDir: string; isDumped: boolean },
): Promise<SnapshotId | undefined> {
  const fields = { sandboxId: burrow.sandboxId, burrowId: burrow.id }
  // Right after a dump the processes may be about to stop, so their state is read only when no dump was finished.
  // Continuing processes that were not stopped does no harm.
  const areStopped = isDumped || (await wasLeftStopped(burrow).catch(() => true))
  // CRIU's links are harmless; the sandbox continues with them if they cannot be found or removed.
  const findRemapLinks = () => imageThreads.use((thread) => thread.run('findRemapLinks', { rawDir }))
  const notFound = (error: unknown) => {
    failures.report('removal', error, fields, 'links that CRIU made in a sandbox were not found')
    return []
  }
  const remapLinks = areStopped ? await findRemapLinks().catch(notFound) : []
  // If this fails, the files are still on disk under another name: `requireOwnFiles` of the next snapshot brings them
  // back.
  const finished = await undoSave(burrow.paths).catch((error: unknown) => {
    failures.report('resume', error, fields, 'a burrow did not get its files back yet')
    return undefined
  })
  if (finished !== undefined) return finished
  await removeRemapLinks(burrow.first.pid, remapLinks).catch((error: unknown) => {
    failures.report('removal', error, fields, 'links that CRIU made in a sandbox were not removed')
  })
  await burrow.resumeAfterFailedSave({ areStopped })
  return undefined
}

/** Brings back the files that an earlier attempt could not. Throws when that is still not possible. */
export async function requireOwnFiles(paths: BurrowPaths): Promise<void> {
  const finished = await undoSave(paths)
  if (finished !== undefined)
    throw new DormouseError('burrow_ended', 'The sandbox was put to sleep.', {
      details: { snapshotId: finished },
    })
}
