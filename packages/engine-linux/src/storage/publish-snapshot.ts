import { mkdir, readdir, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { syncDirectory } from '../host/sync-files.ts'
import type { PageWorker } from '../image/page-worker.ts'

/** Prefix of directories that are not snapshots yet. */
export const UNFINISHED = '.taking-'

/**
 * Gives a finished snapshot its final name. It exists when this returns, also after a power cut unless `isSynced` is
 * false; otherwise it does not.
 */
export async function publishSnapshot(
  work: string,
  final: string,
  { isSynced = true }: { isSynced?: boolean } = {},
): Promise<void> {
  await rename(work, final)
  if (!isSynced) return
  await syncDirectory(dirname(final)).catch(async (error: unknown) => {
    await rename(final, work)
    throw error
  })
}

/** Renames an upper directory to a layer. False when it is empty; then there is no layer. */
export async function moveToLayer(upper: string, layer: string): Promise<boolean> {
  if ((await readdir(upper)).length === 0) return false
  await mkdir(dirname(layer), { recursive: true, mode: 0o700 })
  await rename(upper, layer)
  return true
}

export async function syncLayer(worker: PageWorker, layer: string): Promise<void> {
  await worker.sync([layer])
  await syncDirectory(dirname(layer))
}

/** `no_space` with this message for an error of a full disk; any other error as it is. */
export function explainNoSpace(error: unknown, message: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new DormouseError('no_space', message, { cause: error })
}
