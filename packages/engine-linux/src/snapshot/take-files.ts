import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DormouseError, newLayerId, newSnapshotId } from '@dormouse/contracts'
import type { BurrowRecord } from '../burrow/burrow-record.ts'
import { type BurrowPaths, type Layout, snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { runCommand } from '../host/run-command.ts'
import { PageWorker } from '../image/page-worker.ts'
import { encodeManifest, type FilesManifest, SNAPSHOT_FORMAT_VERSION } from '../storage/manifest.ts'
import {
  explainNoSpace,
  moveToLayer,
  publishSnapshot,
  syncLayer,
  UNFINISHED,
} from '../storage/publish-snapshot.ts'
import { recordSaveIntent, undoSave } from './save-intent.ts'
import { requireOwnFiles } from './take-snapshot.ts'

export interface TakeFiles {
  readonly record: BurrowRecord
  readonly paths: BurrowPaths
  /** Whether the burrow continues with its files. Otherwise they become a layer of the snapshot without a copy. */
  readonly keepsFiles: boolean
}

export interface TakenFiles {
  readonly manifest: FilesManifest
  /** The snapshot exists, but the disk refused to sync its name: a power cut may undo it. */
  readonly syncError?: unknown
}

/**
 * Saves the files of a burrow without its processes. Data that they had not written yet is missing, as after a power
 * cut.
 * Pre: nothing in the burrow runs; it is frozen or has ended. On failure its files are where they were.
 */
export async function takeFiles(layout: Layout, take: TakeFiles): Promise<TakenFiles> {
  const { record, paths, keepsFiles } = take
  const id = newSnapshotId()
  const layerId = newLayerId()
  const layer = join(layout.layersDir, layerId)
  const final = layout.snapshot(id)
  const work = snapshotPaths(join(layout.snapshotsDir, `${UNFINISHED}${id}`))
  const makeLayer = keepsFiles ? copyFiles : moveToLayer
  let manifest: FilesManifest | undefined
  await using worker = new PageWorker()
  try {
    await requireOwnFiles(paths)
    if (!keepsFiles)
      await recordSaveIntent(paths, { snapshotId: id, final: final.dir, work: work.dir, layer })
    const hasFiles = await makeLayer(paths.upper, layer)
    manifest = {
      formatVersion: SNAPSHOT_FORMAT_VERSION,
      id,
      kind: 'files',
      sandboxId: record.sandboxId,
      ...(record.parent !== undefined && { parent: record.parent }),
      createdAt: new Date().toISOString(),
      template: { name: record.template, hash: record.templateHash },
      layers: [...(hasFiles ? [layerId] : []), ...record.layers],
      limits: record.limits,
      volumes: record.volumes,
      ...(record.image !== undefined && { image: record.image }),
      bytes: { images: 0, memory: 0 },
    }
    await mkdir(work.dir, { mode: 0o700 })
    await writeFile(work.manifest, encodeManifest(manifest), { flag: 'wx', mode: 0o600 })
    if (hasFiles) await syncLayer(worker, layer)
    await worker.sync([work.dir])
    await publishSnapshot(work.dir, final.dir)
    return { manifest }
  } catch (error) {
    await worker[Symbol.asyncDispose]()
    if (keepsFiles) await Promise.all([final.dir, layer, work.dir].map(removeTree))
    else if ((await undoSave(paths)) === id && manifest !== undefined) return { manifest, syncError: error }
    throw explainNoSpace(error, 'The disk is full; the sandbox runs on.')
  }
}

/**
 * Copies whiteouts, attributes, owners and holes too, and shares blocks where the file system can. Returns false when
 * there are no files.
 */
async function copyFiles(upper: string, layer: string): Promise<boolean> {
  if ((await readdir(upper)).length === 0) return false
  await mkdir(dirname(layer), { recursive: true, mode: 0o700 })
  const options = ['--archive', '--reflink=auto', '--sparse=always', '--one-file-system', '-T'] as const
  const { exitCode, tail, ending } = await runCommand({ argv: ['cp', ...options, '--', upper, layer] })
  if (exitCode === 0) return true
  const isFull = tail.some((line) => line.includes('No space left') || line.includes('quota exceeded'))
  throw new DormouseError(isFull ? 'no_space' : 'internal', `The files could not be copied: cp ${ending}.`, {
    details: { output: tail },
  })
}
