import type { ForkOptions, LimitRestore, RestoreOptions, Snapshot } from '@dormouse/engine'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { fulfilled, settleAll } from '../host/settle-all.ts'

/** Restores are bound by the CPU: more of them at once only make each slower. */
const RESTORES_AT_ONCE = 4

export interface RestoreFork extends Omit<ForkOptions, 'limitRestore'> {
  readonly snapshot: Snapshot
  readonly parentId: LinuxBurrow['sandboxId']
  readonly limitRestore: LimitRestore
  readonly restore: (options: RestoreOptions) => Promise<LinuxBurrow>
  /** Ends a burrow that is not needed; never throws. */
  readonly giveUp: (burrow: LinuxBurrow) => Promise<void>
}

export interface RestoredFork {
  readonly parent?: LinuxBurrow
  readonly children: readonly LinuxBurrow[]
  /** Why the parent did not continue; then there are no children. */
  readonly resumeError?: unknown
}

/** Continues from a snapshot in the parent and in every child, side by side. On an error no child is left, and the parent continues. */
export async function restoreFork(fork: RestoreFork): Promise<RestoredFork> {
  const {
    snapshot,
    parentId,
    sandboxIds,
    onParent,
    limitRestore,
    restore,
    giveUp,
    signal,
    reseed = true,
  } = fork
  const options = { reason: 'fork' as const, reseed }
  const continueParent = async () => {
    const parent = await limitRestore(parentId, () => restore({ ...options, sandboxId: parentId }))
    try {
      onParent?.({ burrow: parent, snapshot })
    } catch (error) {
      await giveUp(parent)
      throw error
    }
    return parent
  }
  const children = sandboxIds.map(
    (sandboxId) => () =>
      limitRestore(sandboxId, () => restore({ ...options, sandboxId, ...(signal && { signal }) })),
  )
  const [parent, ...restored] = await settleAll([continueParent, ...children], RESTORES_AT_ONCE)
  const failed = restored.find((result) => result.status === 'rejected')
  if (parent?.status === 'fulfilled' && failed === undefined)
    return { parent: parent.value, children: restored.flatMap(fulfilled) }
  await Promise.all(restored.flatMap(fulfilled).map(giveUp))
  if (parent?.status === 'rejected') return { children: [], resumeError: parent.reason }
  throw failed?.reason
}
