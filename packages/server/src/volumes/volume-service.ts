import { DormouseError, newVolumeId, type SandboxId, type VolumeId } from '@dormouse/contracts'
import type { VolumeAnswer } from '@dormouse/contracts/http'
import type { Engine } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { MountedVolume, VolumeMount } from '../store/sandbox-rows.ts'
import { isOver } from './unmeasured-volumes.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'
import type { Volumes } from './volumes.ts'

/** A volume is a directory and costs little; this stops programs in a loop. */
const VOLUMES_PER_OWNER = 1000
/** Millions of files take longer: the caller then gets the last measurement. */
const MEASURE_TIMEOUT_MS = 5_000

export interface VolumeServiceOptions {
  readonly rows: VolumeRows
  readonly engine: Pick<Engine, 'createVolume' | 'deleteVolume' | 'listVolumes' | 'measureVolume'>
  /** Sandboxes that mount it, including those whose rows are not written yet. */
  readonly mountedIn: (id: VolumeId) => readonly SandboxId[]
  /** Throws `limit_reached` when the owner's disk quota is used up. */
  readonly requireRoom: (owner: string) => void
  /** Throws `limit_reached` when a volume of this owner may not be that large. */
  readonly checkSize: (owner: string, sizeBytes: number) => void
  /** The size limit of volumes that are created without one. */
  readonly defaultBytes: (owner: string) => number
  /** The most files, directories and links in one volume. */
  readonly filesMax: number
  readonly now: () => number
  readonly log: Log
}

/**
 * Volumes: directories that outlive sandboxes. A volume belongs to the key that created it, and only its sandboxes can
 * mount it.
 */
export class VolumeService implements Volumes {
  readonly #options: VolumeServiceOptions

  constructor(options: VolumeServiceOptions) {
    this.#options = options
  }

  /** Completes or undoes what an earlier server left unfinished. Pre: all mounts are on record. */
  async open(): Promise<void> {
    const { rows, engine, log } = this.#options
    for (const row of rows.all()) {
      // Undoes a creation that was not reported, and completes a deletion.
      if (row.state !== 'ready')
        await this.#remove(row).catch((err) =>
          log.warn({ volume: row.id, err }, 'a volume could not be removed'),
        )
    }
    const known = new Set<string>(rows.all().map(({ id }) => id))
    const strays = (await engine.listVolumes()).filter((id) => !known.has(id))
    // No crash leaves these. They may be the last copy of a user's work after an older state.db was restored.
    if (strays.length > 0) log.warn({ volumes: strays }, 'found volumes without a record; they are kept')
  }

  async create(
    { name, sizeBytes }: { name: string; sizeBytes?: number },
    caller: Caller,
  ): Promise<VolumeAnswer> {
    const { rows, engine, log, now, requireRoom, checkSize } = this.#options
    requireRoom(caller.keyId)
    if (sizeBytes !== undefined) checkSize(caller.keyId, sizeBytes)
    if (rows.count(caller.keyId) >= VOLUMES_PER_OWNER)
      throw new DormouseError('limit_reached', `A key may have ${VOLUMES_PER_OWNER} volumes.`, {
        hint: 'Delete one that you no longer need.',
      })
    const row: VolumeRow = {
      id: newVolumeId(),
      owner: caller.keyId,
      name,
      state: 'creating',
      createdAt: now(),
      ...{ bytes: undefined, files: undefined, sizeBytes },
    }
    rows.add(row)
    try {
      await engine.createVolume(row.id)
      rows.setState(row.id, 'ready')
    } catch (error) {
      // The next start removes what is left.
      await this.#remove(row).catch((err: unknown) =>
        log.warn({ volume: row.id, err }, 'a volume that was not created could not be removed'),
      )
      throw error
    }
    return this.#view(row)
  }

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<VolumeAnswer> {
    const { items, nextCursor } = this.#options.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map((row) => this.#view(row)), nextCursor }
  }

  async get(name: string, caller: Caller): Promise<VolumeAnswer> {
    const { rows, engine } = this.#options
    const row = this.#find(name, caller)
    using measurement = await engine.measureVolume(row.id)
    const use = await measurement.advance(MEASURE_TIMEOUT_MS)
    if (use !== undefined) rows.setUse(row.id, use)
    return this.#view({ ...row, ...(use && { bytes: use.bytes, files: use.files }) })
  }

  update(name: string, { sizeBytes }: { sizeBytes: number }, caller: Caller): VolumeAnswer {
    const { rows, checkSize } = this.#options
    const row = this.#find(name, caller)
    if (sizeBytes > this.limitsOf(row).bytes) checkSize(row.owner, sizeBytes)
    rows.setSize(row.id, sizeBytes)
    return this.#view({ ...row, sizeBytes })
  }

  limitsOf({ owner, sizeBytes }: VolumeRow): { readonly bytes: number; readonly files: number } {
    const { defaultBytes, filesMax } = this.#options
    return { bytes: sizeBytes ?? defaultBytes(owner), files: filesMax }
  }

  /** Throws `limit_reached` when a writable volume exceeds its limits. */
  requireRoomIn(mounts: readonly MountedVolume[]): void {
    for (const { volumeId, readOnly } of mounts) {
      const row = readOnly ? undefined : this.#options.rows.get(volumeId)
      const limits = row && this.limitsOf(row)
      if (row === undefined || limits === undefined || !isOver(row, limits)) continue
      const [used, limit, what] =
        (row.bytes ?? 0) > limits.bytes
          ? [row.bytes, limits.bytes, 'bytes']
          : [row.files, limits.files, 'files']
      throw new DormouseError(
        'limit_reached',
        `The volume "${row.name}" holds ${used} ${what}; it may hold ${limit}.`,
        {
          hint: 'Raise its limit with `dormouse volume update VOLUME --size SIZE` (`sizeBytes` in the API), then delete files in it.',
          details: {
            limit: what === 'bytes' ? 'sizeBytes' : 'files',
            volume: row.name,
            used,
            limitOfVolume: limit,
          },
        },
      )
    }
  }

  async delete(name: string, caller: Caller): Promise<void> {
    const { rows } = this.#options
    const row = this.#find(name, caller)
    const users = [...this.#usedBy(row.id), ...rows.snapshotsOf(row.id)]
    const [first, ...more] = users
    if (first !== undefined) {
      const others = more.length === 0 ? '' : ` and ${more.length} more`
      throw new DormouseError('in_use', `The volume "${name}" is used by ${first}${others}.`, {
        hint: 'First delete the sandboxes that mount it, and their snapshots.',
        details: { usedBy: users.slice(0, 100) },
      })
    }
    // From here on it cannot be mounted, and the deletion cannot be undone: the next server would complete it.
    rows.setState(row.id, 'deleting')
    await this.#remove(row)
  }

  /**
   * Finds the volumes that a sandbox of this caller mounts. Throws `not_found`. Synchronous: the caller must record the
   * mounts before anything else happens.
   */
  resolve(mounts: readonly VolumeMount[], caller: Caller): readonly MountedVolume[] {
    return mounts.map((mount) => {
      const row = this.#options.rows.named(mount.volume).find(({ owner }) => owner === caller.keyId)
      if (row?.state !== 'ready') throw gone(mount.volume)
      return { ...mount, volumeId: row.id }
    })
  }

  async #remove({ id }: VolumeRow): Promise<void> {
    await this.#options.engine.deleteVolume(id)
    this.#options.rows.delete(id)
  }

  /** The caller's own volume. For an admin also another owner's, if the name is unique. */
  #find(name: string, caller: Caller): VolumeRow {
    const named = this.#options.rows.named(name).filter(({ state }) => state === 'ready')
    const own = named.find(({ owner }) => owner === caller.keyId)
    if (own !== undefined) return own
    const [only, ...others] = caller.isAdmin ? named : []
    if (only === undefined) throw gone(name)
    if (others.length > 0)
      throw new DormouseError('conflict', `Several keys have a volume named "${name}".`, {
        hint: 'Use the key that the volume belongs to.',
      })
    return only
  }

  #usedBy(id: VolumeId): SandboxId[] {
    const { rows, mountedIn } = this.#options
    return [...new Set([...rows.sandboxesOf(id), ...mountedIn(id)])]
  }

  #view(row: VolumeRow): VolumeAnswer {
    return {
      name: row.name,
      createdAt: new Date(row.createdAt).toISOString(),
      ...{ bytes: row.bytes, files: row.files, sizeBytes: this.limitsOf(row).bytes },
      usedBy: this.#usedBy(row.id),
    }
  }
}

function gone(name: string): DormouseError {
  return new DormouseError('not_found', `There is no volume "${name}".`, {
    hint: 'Create it first with POST /v1/volumes; a volume belongs to the key that created it.',
    details: { volume: name },
  })
}
