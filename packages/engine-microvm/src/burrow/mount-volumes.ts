import { DormouseError } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import type { GuestLink } from '../link/guest-link.ts'
import type { MountedVolume } from '../storage/manifest.ts'

/** The volumes that a burrow will have, and what its guest has to do for that. */
export interface MountPlan {
  readonly mounts: readonly MountedVolume[]
  /** Already mounted in the memory of the guest. Files that it has open there stay open. */
  readonly kept: ReadonlySet<number>
  readonly removed: readonly MountedVolume[]
}

/** `had` are those that the guest has mounted in its memory. */
export function planMounts(had: readonly MountedVolume[], wanted: readonly VolumeMount[]): MountPlan {
  const isSame = (one: VolumeMount, other: VolumeMount) =>
    one.volumeId === other.volumeId && one.path === other.path && one.readOnly === other.readOnly
  const kept = had.filter((mount) => wanted.some((other) => isSame(mount, other)))
  const used = new Set(kept.map(({ number }) => number))
  const nextNumber = () => {
    let number = 0
    while (used.has(number)) number += 1
    used.add(number)
    return number
  }
  const mounts = wanted.map((mount) => {
    const found = kept.find((other) => isSame(mount, other))
    return found ?? { ...mount, number: nextNumber() }
  })
  return {
    mounts,
    kept: new Set(kept.map(({ number }) => number)),
    removed: had.filter((mount) => !kept.includes(mount)),
  }
}

/** Post: the guest has mounted the volumes. Their requests wait until they are connected. */
export async function mountVolumes(link: GuestLink, { mounts, kept, removed }: MountPlan): Promise<void> {
  for (const { number, path } of removed) await link.control(`no-volume ${number} ${hex(path)}`)
  for (const { number, path, readOnly } of mounts) {
    if (kept.has(number)) continue
    await link.control(`volume ${number} ${readOnly ? 'ro' : 'rw'} ${hex(path)}`).catch((error: unknown) => {
      throw explain(error, path)
    })
  }
}

function hex(path: string): string {
  return Buffer.from(path).toString('hex')
}

function explain(error: unknown, path: string): unknown {
  const reason =
    error instanceof Error ? /^The guest refused: error (.+)$/s.exec(error.message)?.[1] : undefined
  if (reason === undefined) return error
  if (reason === 'unknown command')
    return new DormouseError(
      'isolation_unsupported',
      'This virtual machine was started by a version of Dormouse that had no volumes for it.',
      { hint: 'Create a new sandbox.', details: { field: 'volumes' } },
    )
  return new DormouseError('invalid_argument', `volumes: nothing can be mounted at ${path}: ${reason}`, {
    hint: 'Choose a path whose parts are directories, or are not there yet; links are not followed.',
    cause: error,
  })
}
