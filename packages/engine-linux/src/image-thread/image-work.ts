import { join } from 'node:path'
import type { VolumeMount } from '@dormouse/engine'
import type { SnapshotPaths } from '../host/layout.ts'
import { type CloseConnections, closeConnections } from '../image/close-connections.ts'
import {
  type Consolidate,
  consolidate,
  findMappedRanges,
  type MappedFile,
} from '../image/consolidate-memory.ts'
import { foldImages } from '../image/fold-images.ts'
import { readImage } from '../image/image-file.ts'
import { findRemapLinks } from '../image/link-remaps.ts'
import { listAhead } from '../image/list-ahead.ts'
import type { MapMemory } from '../image/map-memory.ts'
import { OpenFiles } from '../image/open-files.ts'
import { type PackLibraries, packLibraries } from '../image/pack-libraries.ts'
import type { PageMover } from '../image/page-mover.ts'
import { findHiddenFile, replaceMissing } from '../volume/replace-missing.ts'
import { DumpWork, type MendDump } from './dump-work.ts'
import { passTime } from './pass-time.ts'

/** State of the thread between the requests of one borrower. */
export interface ThreadState {
  readonly mover: PageMover
  dump?: DumpWork | undefined
}

type Mounts = readonly VolumeMount[]

/** The operations of an image thread. Inputs and outputs can be cloned between threads. */
export const IMAGE_WORK = {
  async readDump(state: ThreadState, { rawDir }: { rawDir: string }): Promise<void> {
    state.dump = await DumpWork.read(rawDir)
  },
  async detachFromVolumes(state: ThreadState, volumes: { mounts: Mounts; volumesDir: string }) {
    return getDump(state).detachFromVolumes(volumes)
  },
  async refuseLoss(state: ThreadState, tree: { pids: readonly number[] }) {
    return getDump(state).refuseLoss(tree)
  },
  async mendDump(state: ThreadState, mend: MendDump) {
    return getDump(state).mend(mend)
  },
  async findTimers(state: ThreadState, _nothing: object) {
    return getDump(state).timers()
  },
  async passTime(_state: ThreadState, pass: Parameters<typeof passTime>[0]): Promise<boolean> {
    return passTime(pass)
  },
  async mapDump(state: ThreadState, into: Omit<MapMemory, 'rawDir' | 'worker' | 'files'>) {
    const { memoryFiles, referencedMemoryFiles } = await getDump(state).map(into, state.mover)
    return { memoryFiles, referencedMemoryFiles }
  },
  async findRemapLinks(_state: ThreadState, { rawDir }: { rawDir: string }) {
    return findRemapLinks(rawDir)
  },
  async findOpenPaths(_state: ThreadState, { imagesDir }: { imagesDir: string }): Promise<string[]> {
    return [...new Set(new OpenFiles(await readImage(join(imagesDir, 'files.img'))).paths)]
  },
  async closeConnections(_state: ThreadState, close: CloseConnections): Promise<number> {
    return closeConnections(close)
  },
  async replaceMissing(_state: ThreadState, detach: Parameters<typeof replaceMissing>[0]) {
    return replaceMissing(detach)
  },
  async findHiddenFile(_state: ThreadState, hiding: Parameters<typeof findHiddenFile>[0]) {
    return findHiddenFile(hiding)
  },
  async findMappedRanges(_state: ThreadState, { from }: { from: SnapshotPaths }): Promise<MappedFile[]> {
    return findMappedRanges(from)
  },
  async listAhead(_state: ThreadState, { imagesDir, touched }: { imagesDir: string; touched: string }) {
    return listAhead(imagesDir, touched)
  },
  async consolidate(state: ThreadState, work: Consolidate): Promise<void> {
    await consolidate(work, state.mover)
  },
  async foldImages(state: ThreadState, { paths }: { paths: SnapshotPaths }): Promise<void> {
    await foldImages(paths, state.mover)
  },
  async packLibraries(state: ThreadState, pack: PackLibraries): Promise<void> {
    return packLibraries({ ...pack, worker: state.mover })
  },
}

export type ImageWork = typeof IMAGE_WORK
export type WorkInput<Op extends keyof ImageWork> = Parameters<ImageWork[Op]>[1]
export type WorkOutput<Op extends keyof ImageWork> = Awaited<ReturnType<ImageWork[Op]>>

function getDump({ dump }: ThreadState): DumpWork {
  if (dump === undefined) throw new Error('no dump has been read')
  return dump
}
