import { DormouseError, type VolumeId } from '@dormouse/contracts'
import type { VolumeAnswer } from '@dormouse/contracts/http'
import type { Caller } from '../access/caller.ts'
import type { MountedVolume, VolumeMount } from '../store/sandbox-rows.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'

export type VolumeAccess = VolumeAnswer['access']
type Rows = Pick<VolumeRows, 'get' | 'named' | 'sharesOf'>

/** What a key may do with a volume. Undefined: it does not know that the volume exists. */
export function accessOf(rows: Rows, row: VolumeRow, keyId: string): VolumeAccess | undefined {
  if (row.owner === keyId) return 'own'
  return rows.sharesOf(row.id).find((share) => share.keyId === keyId)?.access
}

/**
 * The volume that a name stands for: the caller's own, or else one that another key shares with it. For an admin also any
 * other, if the name is unique. Throws `not_found`, or `conflict` for a name that several keys share.
 */
export function findVolume(rows: Rows, name: string, caller: Caller): VolumeRow {
  const named = rows.named(name).filter(({ state }) => state === 'ready')
  const own = named.find(({ owner }) => owner === caller.keyId)
  if (own !== undefined) return own
  const shared = named.filter((row) => accessOf(rows, row, caller.keyId) !== undefined)
  const [only, ...others] = shared.length === 0 && caller.isAdmin ? named : shared
  if (only === undefined) throw gone(name)
  if (others.length > 0)
    throw new DormouseError('conflict', `Several keys have a volume named "${name}".`, {
      hint: 'Use the key that the volume belongs to, or ask an owner to share a clone of another name.',
    })
  return only
}

/** Throws unless the key may mount the volume this way. */
export function requireMountable(rows: Rows, row: VolumeRow, mount: VolumeMount, keyId: string): void {
  if (mount.readOnly) return
  const access = accessOf(rows, row, keyId)
  if (access === 'read' || row.readOnly) throw readOnly(row, access)
}

/** Throws when a sandbox of this key mounts a volume that it may not use any more. */
export function requireStillMountable(rows: Rows, mounts: readonly MountedVolume[], keyId: string): void {
  for (const mount of mounts) {
    const row = rows.get(mount.volumeId)
    if (row === undefined) continue
    if (accessOf(rows, row, keyId) === undefined)
      throw new DormouseError('permission_denied', `The volume "${mount.volume}" is not shared any more.`, {
        hint: 'Detach it from the sandbox (`dormouse volume detach`), or ask its owner to share it again.',
        details: { volume: mount.volume },
      })
    requireMountable(rows, row, mount, keyId)
  }
}

export function readOnly(row: VolumeRow, access: VolumeAccess | undefined): DormouseError {
  const why = row.readOnly ? 'is a snapshot' : `is shared with this key for ${access ?? 'read'} only`
  return new DormouseError('permission_denied', `The volume "${row.name}" ${why}: nothing can be written.`, {
    hint: row.readOnly
      ? 'Mount it with `readOnly: true`, or clone it and write to the clone.'
      : 'Mount it with `readOnly: true`, or ask its owner to share it with access `write`.',
    details: { volume: row.name },
  })
}

export function gone(name: string): DormouseError {
  return new DormouseError('not_found', `There is no volume "${name}".`, {
    hint: 'Create it first with POST /v1/volumes; a volume belongs to the key that created it.',
    details: { volume: name },
  })
}

/** The volumes that changed outside of sandboxes since this was last called. */
export class WrittenVolumes {
  #ids = new Set<VolumeId>()

  add(id: VolumeId): void {
    this.#ids.add(id)
  }

  take(): VolumeId[] {
    const ids = [...this.#ids]
    this.#ids.clear()
    return ids
  }
}
