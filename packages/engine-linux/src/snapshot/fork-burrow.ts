import { fulfilled, settleAll, untilOneFails } from '@dormouse/async'
import { DormouseError, type SandboxId } from '@dormouse/contracts'
import type { ForkedBurrow, ForkOptions, ParkedConnections, RestoreOptions, Snapshot } from '@dormouse/engine'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { describeSnapshot } from '../storage/describe-snapshot.ts'
import { restoreSnapshot } from './restore-snapshot.ts'
import { saveAndEnd, withoutLimit } from './save-burrow.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** Restores are bound by the CPU: more of them at once only make each slower. */
const RESTORES_AT_ONCE = 4

export interface ForkedLinuxBurrow extends ForkedBurrow {
  readonly parent?: LinuxBurrow
  readonly children: readonly LinuxBurrow[]
}

/**
 * Saves a burrow, then continues from the snapshot in the parent and in every child. An error means that no child is
 * left and the parent continues. A parent that is saved but does not continue is `resumeError` of the result; then
 * there are no children.
 */
export async function forkBurrow(
  engine: SnapshotEngine,
  burrow: LinuxBurrow,
  options: ForkOptions,
): Promise<ForkedLinuxBurrow> {
  const { sandboxIds } = options
  if (sandboxIds.length === 0)
    throw new DormouseError('invalid_argument', 'fork: sandboxIds: is empty (saw [])')
  // Spares are made while the snapshot is taken.
  const cancelSpares = engine.host.spares.expect(sandboxIds.length + 1)
  const saving = saveAndEnd(engine, burrow, { isUnsynced: true, refusesLocks: true })
  const { manifest, connections, ended, syncError } = await saving.catch((error: unknown) => {
    cancelSpares()
    throw error
  })
  const snapshot = describeSnapshot(manifest)
  if (syncError !== undefined) {
    cancelSpares()
    await Promise.allSettled([ended])
    return { snapshot, connections, children: [], resumeError: syncError }
  }
  const restored = restoreAll(engine, { snapshot, connections, parentId: burrow.sandboxId, options })
  await Promise.allSettled([restored, ended])
  engine.host.unsynced.start(manifest.id)
  return { snapshot, connections, ...(await restored) }
}

/** Restores the parent and the children, some at a time. When one fails, destroys the children and restores no more. */
async function restoreAll(
  engine: SnapshotEngine,
  {
    snapshot,
    connections,
    parentId,
    options,
  }: { snapshot: Snapshot; connections: ParkedConnections; parentId: SandboxId; options: ForkOptions },
): Promise<Omit<ForkedLinuxBurrow, 'snapshot' | 'connections'>> {
  const { sandboxIds, onParent, onChild, limitRestore = withoutLimit, signal, reseed = true } = options
  const restore = (sandboxId: SandboxId, more: Pick<RestoreOptions, 'signal' | 'connections'>) =>
    limitRestore(sandboxId, () =>
      restoreSnapshot(engine, snapshot.id, { sandboxId, reason: 'fork', reseed, ...more }),
    )
  const restoreParent = async () => {
    const burrow = await restore(parentId, { connections })
    return announce(engine, burrow, () => onParent?.({ burrow, snapshot, connections }))
  }
  let restoringParent: Promise<LinuxBurrow> | undefined
  const continueParent = () => (restoringParent ??= restoreParent())
  const restoreChild = async (sandboxId: SandboxId) => {
    const child = await restore(sandboxId, signal ? { signal } : {})
    return announce(engine, child, async () => {
      await continueParent()
      onChild?.(child)
    })
  }
  // The parent comes first, so that a child that fails does not stop it.
  const run = untilOneFails((job: () => Promise<LinuxBurrow>) => job())
  const restores = [continueParent, ...sandboxIds.map((sandboxId) => () => restoreChild(sandboxId))]
  const [parent, ...children] = await settleAll(
    restores.map((job) => () => run(job)),
    RESTORES_AT_ONCE,
  )
  const failed = children.find((result) => result.status === 'rejected')
  if (parent?.status === 'fulfilled' && failed === undefined)
    return { parent: parent.value, children: children.flatMap(fulfilled) }
  await Promise.all(children.flatMap(fulfilled).map((child) => engine.destroyBurrow(child)))
  if (parent?.status === 'rejected') return { children: [], resumeError: parent.reason }
  throw failed?.reason
}

/** Destroys the burrow when the call fails. */
async function announce(
  engine: SnapshotEngine,
  burrow: LinuxBurrow,
  call: () => void | Promise<void>,
): Promise<LinuxBurrow> {
  try {
    await call()
    return burrow
  } catch (error) {
    await engine.destroyBurrow(burrow)
    throw error
  }
}
