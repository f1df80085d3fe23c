import { hasErrorCode, type SnapshotId } from '@dormouse/contracts'
import type { SandboxDependencies } from './sandbox-dependencies.ts'

/** Removes a snapshot unless something refers to it. A failure only costs disk space: the next start tries again. */
export async function dropSnapshot(
  { snapshots, engine, log }: Pick<SandboxDependencies, 'snapshots' | 'engine' | 'log'>,
  id: SnapshotId | undefined,
): Promise<void> {
  const row = id === undefined ? undefined : snapshots.get(id)
  if (row === undefined || row.isKept || snapshots.isHead(row.id) || snapshots.isTemplate(row.id)) return
  if (snapshots.isHeld(row.id)) return
  try {
    // The row goes first, so that no caller sees a snapshot without files.
    snapshots.delete(row.id)
    await removeFiles({ snapshots, engine }, row.id)
  } catch (error) {
    log.warn({ snapshotId: row.id, err: error }, 'a snapshot could not be removed')
  }
}

/**
 * Removes the former head of a sandbox once the snapshot that replaced it is on disk: until then a power cut leads back
 * to it. A failure only costs disk space.
 */
export async function dropFormerHead(
  deps: Pick<SandboxDependencies, 'snapshots' | 'engine' | 'log'>,
  former: SnapshotId,
  head: SnapshotId,
): Promise<void> {
  const held = deps.snapshots.hold(former)
  try {
    await deps.engine.syncSnapshot(head)
  } catch (error) {
    deps.log.warn(
      { snapshotId: head, err: error },
      'a snapshot is not on disk yet; the one before it is kept',
    )
    return
  }
  held[Symbol.dispose]()
  await dropSnapshot(deps, former)
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
