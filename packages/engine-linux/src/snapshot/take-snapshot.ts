import { mkdir, readdir, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DormouseError, type LayerId, newLayerId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { wasLeftStopped } from '../burrow/interrupted-dump.ts'
import { type BurrowPaths, snapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import { recordTaking, undoTaking } from '../burrow/taking.ts'
import { allOf } from '../host/settle-all.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { requireFewHeld } from '../image/dump-limits.ts'
import { PageWorker } from '../image/page-worker.ts'
import { DumpImages } from '../image-thread/dump-images.ts'
import { refuseHolds } from '../volume/refuse-holds.ts'
import type { Dumper } from './dumper.ts'
import { finishImages } from './finish-images.ts'
import { holdForDump } from './hold-for-dump.ts'
import { removeRemapLinks } from './link-remaps.ts'
import { encodeManifest, type FullManifest, readManifest } from './manifest.ts'
import { cutOff, explainDumpFailure } from './refusal.ts'
import { dumpDeadlineMs, type Saver } from './saver.ts'
import { rememberVerified } from './verify-snapshot.ts'

/** Prefix of directories that are not snapshots yet. */
export const UNFINISHED = '.taking-'

export interface TakeSnapshot {
  readonly burrow: LinuxBurrow
  readonly dumper: Dumper
  /** The directory that the burrow sees as /.dormouse. */
  readonly toolsDir: string
  /** Where the finished snapshot goes; the engine's own snapshots when not given. */
  readonly into?: string
  readonly layersDir?: string
}

export interface TakenSnapshot {
  readonly manifest: FullManifest
  /** Holds the dump as CRIU made it: as large as the memory that has changed, of no more use, and not quickly removed. */
  readonly rest: string
  /** Settles when nothing of the burrow is left. Taking a gigabyte of memory apart takes a while: the next burrow can start meanwhile. */
  readonly ended: Promise<void>
  /** The snapshot counts, but the disk refused to sync its name: a power cut may undo it. */
  readonly syncError?: unknown
}

/**
 * Saves a burrow and ends it. The processes stay stopped until all of it is on disk; only then do they go. If any step fails
 * they continue where they were, what was written is removed, and the error says why.
 */
export async function takeSnapshot(host: BurrowHost, take: TakeSnapshot): Promise<TakenSnapshot> {
  const { burrow, dumper, toolsDir, into } = take
  const id = newSnapshotId()
  const final = into === undefined ? host.layout.snapshot(id) : snapshotPaths(into)
  const unfinished = join(dirname(final.dir), `${UNFINISHED}${id}`)
  const raw = join(unfinished, 'raw')
  const work = snapshotPaths(join(unfinished, 'snapshot'))
  const layerId = newLayerId()
  const layer = join(take.layersDir ?? host.layout.layersDir, layerId)
  let isDumped = false
  let manifest: FullManifest | undefined
  await using worker = new PageWorker()
  await using images = new DumpImages(raw)
  await burrow.quiesce()
  try {
    await requireFewHeld(await burrow.pids())
    await requireOwnFiles(burrow.paths)
    await recordTaking(burrow.paths, { snapshotId: id, final: final.dir, work: unfinished, layer })
    await mkdir(raw, { recursive: true, mode: 0o700 })
    await mkdir(work.dir, { mode: 0o700 })
    await dump(burrow, await dumper.take(), raw)
    isDumped = true
    const pids = await burrow.pids()
    const { volumes: mounts } = burrow.record
    const { volumesDir } = host.layout
    await images.read()
    const volumeFiles = await images.leaveVolumes({ mounts, volumesDir })
    await refuseHolds(mounts, { firstPid: burrow.first.pid, pids })
    await images.refuseLoss(pids)
    const hasFiles = await freezeFiles(burrow.paths.upper, layer)
    const layers: LayerId[] = [...(hasFiles ? [layerId] : []), ...burrow.record.layers]
    // The disk works while the images are being read.
    const filesOnDisk = hasFiles ? syncLayer(worker, layer) : Promise.resolve()
    filesOnDisk.catch(() => {})
    const { criuVersion } = dumper
    const ownLayer = hasFiles ? layer : undefined
    manifest = await finishImages({
      ...{ id, burrow, criuVersion, toolsDir, layers, ownLayer, volumeFiles, volumesDir, raw, work, worker },
      images,
    })
    await writeFile(work.manifest, encodeManifest(manifest), { flag: 'wx', mode: 0o600 })
    await filesOnDisk
    await worker.sync([work.dir])
    await publishSnapshot(work.dir, final.dir)
    rememberVerified(final, manifest)
    // It has nothing to do any more, and takes a moment to go.
    void worker[Symbol.asyncDispose]()
    const ended = burrow.endAfterSnapshot(id)
    // Heard where it is waited for.
    ended.catch(() => {})
    return { manifest, rest: unfinished, ended }
  } catch (error) {
    await worker[Symbol.asyncDispose]()
    const savedAs = await takeBack(burrow, { images, isDumped })
    if (savedAs === undefined) throw noSpace(error)
    const ended = burrow.endAfterSnapshot(savedAs)
    ended.catch(() => {})
    // An attempt before this one may have finished, and only now is known to have.
    const saved = savedAs === id ? manifest : await readManifest(host.layout.snapshot(savedAs).manifest)
    if (saved?.kind !== 'full') throw error
    return { manifest: saved, rest: unfinished, ended, syncError: error }
  }
}

/** Lets the burrow continue as if nothing had been, whatever fails on the way. Returns the snapshot when it cannot, because it is saved. */
async function takeBack(
  burrow: LinuxBurrow,
  { images, isDumped }: { images: DumpImages; isDumped: boolean },
): Promise<SnapshotId | undefined> {
  // Asked only where it is not known: right after a dump they may be on their way to a stop.
  const areStopped = isDumped || (await wasLeftStopped(burrow).catch(() => true))
  const remapLinks = areStopped ? await images.findRemapLinks().catch(() => []) : []
  // Where this fails the burrow's files are still its own, under another name: the next snapshot brings them back.
  const finished = await undoTaking(burrow.paths).catch(() => undefined)
  if (finished !== undefined) return finished
  await removeRemapLinks(burrow.first.pid, remapLinks).catch(() => {})
  await burrow.goOn({ areStopped })
  return undefined
}

/** Brings back what an attempt before this one could not. Throws when it cannot be done now either. */
export async function requireOwnFiles(paths: BurrowPaths): Promise<void> {
  const finished = await undoTaking(paths)
  if (finished !== undefined)
    throw new DormouseError('burrow_ended', 'The sandbox was put to sleep.', {
      details: { snapshotId: finished },
    })
}

/** From here on it counts, if it also does after a power cut; otherwise it has not been. */
export async function publishSnapshot(work: string, final: string): Promise<void> {
  await rename(work, final)
  await syncDirectory(dirname(final)).catch(async (error: unknown) => {
    await rename(final, work)
    throw error
  })
}

/** Nothing runs from here on: neither what is saved nor what could change it meanwhile. */
async function dump(burrow: LinuxBurrow, saver: Saver, imagesDir: string): Promise<void> {
  const { first, freezerDir, limits } = burrow
  const ready = allOf([burrow.usage(), saver.allowMemory(limits.memoryBytes), holdForDump(burrow)])
  const [{ memoryBytes }] = await ready.catch((error: unknown) => {
    saver.cancel()
    throw error
  })
  const deadlineMs = dumpDeadlineMs(memoryBytes)
  const hasVolumes = burrow.record.volumes.length > 0
  const result = await saver.save({ first, imagesDir, freezerDir, deadlineMs, hasVolumes })
  if (result.isCutOff) throw cutOff()
  if (result.exitCode !== 0) throw explainDumpFailure(result.output)
}

/** The upper directory becomes a layer: a rename. False when there was nothing in it. */
export async function freezeFiles(upper: string, layer: string): Promise<boolean> {
  if ((await readdir(upper)).length === 0) return false
  await mkdir(dirname(layer), { recursive: true, mode: 0o700 })
  await rename(upper, layer)
  return true
}

export async function syncLayer(worker: PageWorker, layer: string): Promise<void> {
  await worker.sync([layer])
  await syncDirectory(dirname(layer))
}

export function noSpace(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new DormouseError('no_space', 'The disk is full; the sandbox runs on.', { cause: error })
}
