import { DormouseError, newVolumeId, type SandboxId, type VolumeId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { Volumes, VolumeView } from '../api/services.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { MountedVolume, VolumeMount } from '../store/sandbox-rows.ts'
import { isOver } from './unmeasured-volumes.ts'
import type { VolumeRow, VolumeRows } from './volume-rows.ts'

/** Each is a directory that costs next to nothing; this is against programs that never stop. */
const VOLUMES_PER_OWNER = 1000
/** Millions of files take longer; the caller is shown the last measurement rather than made to wait. */
const MEASURE_TIMEOUT_MS = 5_000

export interface VolumeServiceOptions {
  readonly rows: VolumeRows
  readonly engine: Pick<Engine, 'createVolume' | 'deleteVolume' | 'listVolumes' | 'measureVolume'>
  /** Sandboxes that mount it and may not be on disk yet. */
  readonly mountedIn: (id: VolumeId) => readonly SandboxId[]
  /** Throws `limit_reached` when this owner has no room on disk left. */
  readonly requireRoom: (owner: string) => void
  /** Throws `limit_reached` when no volume of this owner may hold so much. */
  readonly checkSize: (owner: string, sizeBytes: number) => void
  /** What one may hold whose creator has not said. */
  readonly defaultBytes: (owner: string) => number
  /** Files, directories and links that one may hold. */
  readonly filesMax: number
  readonly now: () => number
  readonly log: Log
}

/** Directories that outlive sandboxes. They belong to the key that made them, and only its sandboxes can mount them. */
export class VolumeService implements Volumes {
  readonly #options: VolumeServiceOptions

  constructor(options: VolumeServiceOptions) {
    this.#options = options
  }

  /** Finishes what an earlier server had begun. Pre: nothing is mounted that was not on record. */
  async open(): Promise<void> {
    const { rows, engine, log } = this.#options
    for (const row of rows.all()) {
      // A creation that nobody was told of, or a deletion that was: neither is to be.
      if (row.state !== 'ready')
        await this.#remove(row).catch((err) =>
          log.warn({ volume: row.id, err }, 'a volume could not be removed'),
        )
    }
    const known = new Set<string>(rows.all().map(({ id }) => id))
    const strays = (await engine.listVolumes()).filter((id) => !known.has(id))
    // No crash makes these. They may be all that is left of somebody's work, after an older state.db was put back.
    if (strays.length > 0) log.warn({ volumes: strays }, 'volumes that are in no record; they are left alone')
  }

  async create(
    { name, sizeBytes }: { name: string; sizeBytes?: number },
    caller: Caller,
  ): Promise<VolumeView> {
    const { rows, engine, now, requireRoom, checkSize } = this.#options
    requireRoom(caller.keyId)
    if (sizeBytes !== undefined) checkSize(caller.keyId, sizeBytes)
    if (rows.count(caller.keyId) >= VOLUMES_PER_OWNER)
      throw new DormouseError('limit_reached', `A key may have ${VOLUMES_PER_OWNER} volumes.`, {
        hint: 'Delete one that is not needed.',
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
      await this.#remove(row).catch(() => {})
      throw error
    }
    return this.#view(row)
  }

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<VolumeView> {
    const { items, nextCursor } = this.#options.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map((row) => this.#view(row)), nextCursor }
  }

  async get(name: string, caller: Caller): Promise<VolumeView> {
    const { rows, engine } = this.#options
    const row = this.#find(name, caller)
    using measurement = await engine.measureVolume(row.id)
    const use = await measurement.advance(MEASURE_TIMEOUT_MS)
    if (use !== undefined) rows.setUse(row.id, use)
    return this.#view({ ...row, ...(use && { bytes: use.bytes, files: use.files }) })
  }

  update(name: string, { sizeBytes }: { sizeBytes: number }, caller: Caller): VolumeView {
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

  /** Throws `limit_reached` when a volume that could be written to holds more than it may. */
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
          hint: 'Allow it more, then delete in it what is not needed: `dormouse volume update VOLUME --size SIZE`, or `sizeBytes` by HTTP or an SDK.',
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
        hint: 'Delete the sandboxes that mount it, and the snapshots that were taken of them, first.',
        details: { usedBy: users.slice(0, 100) },
      })
    }
    // From here on nobody can mount it, and there is no way back: a next server finishes it.
    rows.setState(row.id, 'deleting')
    await this.#remove(row)
  }

  /** Which volumes a sandbox of this caller means. Throws `not_found`. Synchronous: whoever asks must write it down before anybody else acts. */
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

  /** The caller's own; for an admin also another's, if there is just one of that name. */
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

  #view(row: VolumeRow): VolumeView {
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
    hint: 'Create it first with POST /v1/volumes; a volume belongs to the key that made it.',
    details: { volume: name },
  })
}
