import { hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** Removes a snapshot unless something refers to it. A failure only costs disk space: the next start tries again. */
export async function dropSnapshot(
  { snapshots, engine, log }: Pick<SandboxDependencies, 'snapshots' | 'engine' | 'log'>,
  id: SnapshotId | undefined,
): Promise<void> {
  const row = id === undefined ? undefined : snapshots.get(id)
  if (row === undefined || row.isKept || snapshots.isHead(row.id) || snapshots.isTemplate(row.id)) return
  try {
    // The row goes first, so that no caller sees a snapshot without files.
    snapshots.delete(row.id)
    await removeFiles({ snapshots, engine }, row.id)
  } catch (error) {
    log.warn({ snapshotId: row.id, err: error }, 'a snapshot could not be removed')
  }
}

/** Pre: no row of it is left. */
export async function removeFiles(
  { snapshots, engine }: Pick<SandboxDependencies, 'snapshots' | 'engine'>,
  id: SnapshotId,
): Promise<void> {
  await engine.deleteSnapshot(id).catch((error: unknown) => {
    if (!hasErrorCode(error, 'not_found')) throw error
  })
  snapshots.forget(id)
}
