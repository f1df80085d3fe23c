import { rm } from 'node:fs/promises'
import { DormouseError, newSnapshotId, type SandboxId } from '@dormouse/contracts'
import type { ForkOptions, ParkedConnections, SnapshotOptions } from '@dormouse/engine'
import { explainFullDisk, sendUnacknowledgedAgain } from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrow } from '../burrow/microvm-burrow.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import type { Manifest } from '../storage/manifest.ts'
import { makeBurrow } from './make-burrow.ts'
import { shortenChain } from './shorten-chain.ts'
import { syncFile, writeSaveIntent, writeSnapshot } from './take-snapshot.ts'

const MAX_CHILDREN = 1_000

export interface SavedMicrovm {
  readonly manifest: Manifest
  readonly wasFrozen: boolean
  readonly connections: ParkedConnections
}

/** Saves a burrow. With kind `full` it ends; with kind `files` it continues unless `leave` is `gone`. */
export async function saveBurrow(
  host: MicrovmHost,
  burrow: MicrovmBurrow,
  {
    kind = 'full',
    leave,
    signal,
    isForked,
  }: Pick<SnapshotOptions, 'kind' | 'leave' | 'signal'> & { readonly isForked?: boolean },
): Promise<SavedMicrovm> {
  const arriving = kind === 'full' ? burrow.memoryToArrive(signal) : undefined
  // Otherwise nothing is awaited before the claim: a destroy that comes next waits for the snapshot.
  if (arriving !== undefined) await arriving
  signal?.throwIfAborted()
  burrow.claimSaving({ mayHaveEnded: kind === 'files' })
  const id = newSnapshotId()
  const endsAfter = kind === 'full' || leave === 'gone'
  const { wasFrozen } = await prepareAndStop(host, burrow, kind)
  let manifest: Manifest
  let connections: ParkedConnections = []
  try {
    if (endsAfter) await writeSaveIntent(burrow.paths.saving, { snapshotId: id, wasFrozen })
    // The guest stands still, so its ends of these connections are in the snapshot as they are now.
    if (kind === 'full') connections = (await burrow.connections.park()).map(sendUnacknowledgedAgain)
    const target = host.layout.snapshot(id).dir
    manifest = await writeSnapshot(burrow, { id, kind, target, endsAfter, isForked, signal })
  } catch (error) {
    await rm(burrow.paths.saving, { force: true })
    await burrow.resumeAfterFailedSave({ wasFrozen })
    throw explainFullDisk(error)
  }
  if (endsAfter) await burrow.endAfterSnapshot(id)
  else await burrow.resumeAfterFailedSave({ wasFrozen })
  return { manifest, wasFrozen, connections }
}

async function prepareAndStop(
  host: MicrovmHost,
  burrow: MicrovmBurrow,
  kind: 'full' | 'files',
): Promise<{ wasFrozen: boolean }> {
  try {
    // What the guest has in its page cache is not on its disk yet. An agent that does not answer must not prevent this.
    if (kind === 'files') await burrow.link.control('sync').catch(() => {})
    // A longer chain is better than no snapshot.
    await shortenChain(burrow, host.chainMaxDisks).catch((error: unknown) =>
      host.failures.report('upkeep', error, { burrowId: burrow.id }, 'the disks of a burrow were not merged'),
    )
    // While the guest runs: once it stands still, only what it writes meanwhile is left to wait for.
    await syncFile(burrow.paths.disk)
    return await burrow.stopForSaving()
  } catch (error) {
    burrow.giveUpSaving()
    throw error
  }
}

/** Continues a saved sandbox in a new burrow. One that is not told otherwise keeps its random numbers. */
export function continueSaved(
  host: MicrovmHost,
  { manifest, connections }: SavedMicrovm,
  leave: 'running' | 'frozen',
  how: { reason: 'resume' | 'fork'; reseed: boolean } = { reason: 'resume', reseed: false },
): Promise<MicrovmBurrow> {
  const { id, sandboxId, base, limits, volumes } = manifest
  const introduction = { sandboxId, ...how }
  const source = host.layout.snapshot(id)
  return makeBurrow(host, {
    ...{ base, source, isBoot: false, parent: id, limits, introduction, leave, connections },
    ...mountAgain(volumes),
  })
}

/** Every snapshot continues with the volumes that it had, unless others are asked for. */
function mountAgain(volumes: Manifest['volumes']) {
  const mounts = volumes.map(({ volumeId, path, readOnly }) => ({ volumeId, path, readOnly }))
  return { volumes: mounts, hadVolumes: volumes }
}

/** One burrow for each id, all or none. */
export async function makeChildren(
  host: MicrovmHost,
  manifest: Manifest,
  { sandboxIds, limitRestore = (_id, restore) => restore(), reseed = true, signal, onChild }: ForkOptions,
  hold: (child: MicrovmBurrow) => void,
): Promise<MicrovmBurrow[]> {
  const { id, base, limits, volumes } = manifest
  const make = async (sandboxId: SandboxId) => {
    const child = await limitRestore(sandboxId, () =>
      makeBurrow(host, {
        ...{ base, source: host.layout.snapshot(id), isBoot: false, parent: id, limits, signal },
        introduction: { sandboxId, reason: 'fork', reseed },
        ...mountAgain(volumes),
      }),
    )
    try {
      hold(child)
      onChild?.(child)
      return child
    } catch (error) {
      await child.destroy()
      throw error
    }
  }
  const outcomes = await Promise.allSettled(sandboxIds.map(make))
  const failure = outcomes.find(({ status }) => status === 'rejected')
  const made = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  if (failure === undefined) return made
  await Promise.allSettled(made.map((child) => child.destroy()))
  throw (failure as PromiseRejectedResult).reason
}

export function checkChildren({ sandboxIds }: ForkOptions): void {
  if (sandboxIds.length === 0 || sandboxIds.length > MAX_CHILDREN)
    throw new DormouseError('invalid_argument', `sandboxIds: must have 1 to ${MAX_CHILDREN} entries`, {
      details: { field: 'sandboxIds' },
    })
}
