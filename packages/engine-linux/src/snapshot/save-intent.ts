import { readFile, rename, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { isLayerId, isSnapshotId, type LayerId, type SnapshotId } from '@dormouse/contracts'
import { z } from 'zod'
import type { BurrowPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { writeDurably } from '../host/sync-files.ts'

const saveIntentSchema = z.strictObject({
  snapshotId: z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value)),
  /** Where the finished snapshot will be. */
  final: z.string(),
  /** Where the snapshot is until it is finished. */
  work: z.string(),
  /** The layer that the burrow's own files become. */
  layer: z.string(),
})

/**
 * What a snapshot is about to do with the files of a burrow, written before it acts: after a crash the next server
 * undoes it.
 */
export type SaveIntent = z.output<typeof saveIntentSchema>

export async function recordSaveIntent(paths: BurrowPaths, intent: SaveIntent): Promise<void> {
  await writeDurably(paths.saveIntent, JSON.stringify(intent))
}

/**
 * Gives a burrow back the files that an unfinished snapshot took from it. Safe to call again. Returns the id of the
 * snapshot if it is finished: then its files belong to the snapshot, and the burrow has to end.
 */
export async function undoSave(paths: BurrowPaths): Promise<SnapshotId | undefined> {
  const text = await readFile(paths.saveIntent, 'utf8').catch(unlessAbsent)
  if (text === undefined) return undefined
  const intent = parseSaveIntent(text)
  // An intent that was cut off while it was written: the snapshot had done nothing else yet.
  if (intent !== undefined) {
    if (await stat(intent.final).catch(unlessAbsent)) return intent.snapshotId
    await rename(intent.layer, paths.upper).catch(unlessAbsent)
    await removeTree(intent.work)
  }
  await rm(paths.saveIntent)
  return undefined
}

/** The layer that the burrow's own files have become, or will become, if a snapshot of it is being taken. */
export async function findLayerBeingSaved(paths: BurrowPaths): Promise<LayerId | undefined> {
  const text = await readFile(paths.saveIntent, 'utf8').catch(unlessAbsent)
  const name = basename((text && parseSaveIntent(text)?.layer) ?? '')
  return isLayerId(name) ? name : undefined
}

function unlessAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

function parseSaveIntent(text: string): SaveIntent | undefined {
  try {
    return saveIntentSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
