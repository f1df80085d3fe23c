import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readdir, rename, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, isVolumeId, type VolumeId } from '@dormouse/contracts'
import type { Measurement, SizeLimit, StopAt, VolumeLimits } from '@dormouse/engine'
import { removeTree } from '../host/publish-directory.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { TreeMeasurement } from '../host/tree-measurement.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { VolumeQuotas } from './volume-quotas.ts'

const DELETED = '.deleted-'

/** Throws `snapshot_unusable` when a volume to be mounted does not exist. */
export function requireVolumes(mounts: readonly { readonly volumeId: VolumeId }[], dir: string): void {
  const missing = mounts.find(({ volumeId }) => !existsSync(join(dir, volumeId)))
  if (missing !== undefined)
    throw new DormouseError('snapshot_unusable', `The volume ${missing.volumeId} is missing.`, {
      details: { reason: 'a volume is missing', volumeId: missing.volumeId },
    })
}

/** The volumes of an engine: one directory each. */
export class VolumeStore {
  readonly quotas: VolumeQuotas
  readonly #dir: string

  constructor(dir: string) {
    this.quotas = new VolumeQuotas(dir)
    this.#dir = dir
  }

  /** Returns the path on the host. Throws `not_found`. */
  async find(id: VolumeId): Promise<string> {
    const path = this.#path(id)
    // A directory that cannot be read cannot be mounted either.
    const found = await stat(path).catch(() => undefined)
    if (found?.isDirectory() !== true) throw new DormouseError('not_found', `There is no volume ${id}.`)
    return path
  }

  async create(id: VolumeId, limits?: VolumeLimits): Promise<SizeLimit> {
    const path = this.#path(id)
    try {
      await mkdir(path, { mode: 0o755 })
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      if (code === 'EEXIST')
        throw new DormouseError('already_exists', `There is a volume ${id} already.`, { cause })
      if (code === 'ENOSPC' || code === 'EDQUOT')
        throw new DormouseError('no_space', 'The disk that holds the volumes is full.', { cause })
      throw cause
    }
    // The umask of the server may have changed the mode.
    await chmod(path, 0o755)
    await chown(path, UID_BASE, UID_BASE)
    const limit = limits === undefined ? 'measured' : await this.quotas.add(id, limits)
    await syncDirectory(this.#dir)
    return limit
  }

  /** Post: no burrow can mount the volume any more, even if this is cut off. */
  async delete(id: VolumeId): Promise<void> {
    const doomed = join(this.#dir, `${DELETED}${id}`)
    await this.quotas.free(id)
    try {
      await rename(this.#path(id), doomed)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    await removeTree(doomed)
    await syncDirectory(this.#dir)
  }

  async list(): Promise<VolumeId[]> {
    return (await readdir(this.#dir)).filter(isVolumeId)
  }

  /** Throws `not_found`. */
  async measure(id: VolumeId, stopAt: StopAt = {}): Promise<Measurement> {
    const path = await this.find(id)
    return this.quotas.measurement(id) ?? new TreeMeasurement(path, stopAt)
  }

  /** Finishes deletions that were cut off. */
  async removeDeleted(): Promise<void> {
    for (const name of await readdir(this.#dir)) {
      if (name.startsWith(DELETED)) await removeTree(join(this.#dir, name))
    }
  }

  #path(id: VolumeId): string {
    if (!isVolumeId(id)) throw new DormouseError('invalid_argument', `"${id}" is not a volume id.`)
    return join(this.#dir, id)
  }
}
