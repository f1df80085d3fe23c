import { readFile, rename, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { isLayerId, isSnapshotId, type LayerId, type SnapshotId } from '@dormouse/contracts'
import { z } from 'zod'
import { removeTree } from '../host/publish-directory.ts'
import { writeDurably } from '../host/sync-files.ts'
import type { BurrowPaths } from './layout.ts'

const takingSchema = z.strictObject({
  snapshotId: z.custom<SnapshotId>((value) => typeof value === 'string' && isSnapshotId(value)),
  /** Where the snapshot will be, and where it is until it is finished. */
  final: z.string(),
  work: z.string(),
  /** What the burrow's own files become. */
  layer: z.string(),
})

/** What is being done to a burrow, written down before it is done: whoever finds it half done knows how to go on. */
export type Taking = z.output<typeof takingSchema>

export async function recordTaking(paths: BurrowPaths, taking: Taking): Promise<void> {
  await writeDurably(paths.taking, JSON.stringify(taking))
}

/**
 * Takes back what a snapshot that is not finished has done to a burrow's files. Safe to call again. Answers the snapshot when
 * it is finished: then the burrow is its past, and its files are not its own any more.
 */
export async function undoTaking(paths: BurrowPaths): Promise<SnapshotId | undefined> {
  const text = await readFile(paths.taking, 'utf8').catch(unlessAbsent)
  if (text === undefined) return undefined
  const taking = parseTaking(text)
  // Cut off while it was written: nothing else had been done.
  if (taking !== undefined) {
    if (await stat(taking.final).catch(unlessAbsent)) return taking.snapshotId
    await rename(taking.layer, paths.upper).catch(unlessAbsent)
    await removeTree(taking.work)
  }
  await rm(paths.taking)
  return undefined
}

/** What a burrow's own files have become, or become next, if it is being saved. */
export async function findTakenLayer(paths: BurrowPaths): Promise<LayerId | undefined> {
  const text = await readFile(paths.taking, 'utf8').catch(unlessAbsent)
  const name = basename((text && parseTaking(text)?.layer) ?? '')
  return isLayerId(name) ? name : undefined
}

function unlessAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

function parseTaking(text: string): Taking | undefined {
  try {
    return takingSchema.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
