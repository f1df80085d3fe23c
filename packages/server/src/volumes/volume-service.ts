import { DormouseError, newVolumeId, type SandboxId, type VolumeId } from '@dormouse/contracts'
import type { VolumeAnswer } from '@dormouse/contracts/http'
import type { EngineVolumes, VolumeFiles, VolumeLimits } from '@dormouse/engine'
import type { Caller } from '../access/caller.ts'
import type { Log } from '../log.ts'
import type { Page } from '../store/page.ts'
import type { MountedVolume, VolumeMount } from '../store/sandbox-rows.ts'
import { HardLimits } from './hard-limits.ts'
import { isOver } from './unmeasured-volumes.ts'
import {
  accessOf,
  findVolume,
  readOnly,
  requireMountable,
  requireStillMountable,
  WrittenVolumes,
} from './volume-access.ts'
import type { ShareAccess, VolumeRow, VolumeRows } from './volume-rows.ts'
import type { Volumes } from './volumes.ts'

/** A volume is a directory and costs little; this stops programs in a loop. */
const VOLUMES_PER_OWNER = 1000
/** Millions of files take longer: the caller then gets the last measurement. */
const MEASURE_TIMEOUT_MS = 5_000

export interface VolumeServiceOptions {
  readonly rows: VolumeRows
  readonly engine: EngineVolumes
  /** A key that is not revoked, by id or by a name that no other key has. */
  readonly findKey: (ref: string) => { readonly keyId: string; readonly name: string } | undefined
  /** Sandboxes of this key must not use the volume any more as they do. */
  readonly onUnshared: (id: VolumeId, keyId: string) => void
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
 * Volumes: directories that outlive sandboxes. A volume belongs to the key that created it. Its sandboxes can mount it,
 * and those of keys that it is shared with.
 */
export class VolumeService implements Volumes {
  readonly #options: VolumeServiceOptions
  readonly written = new WrittenVolumes()
  readonly #hard: HardLimits

  constructor(options: VolumeServiceOptions) {
    this.#options = options
    this.#hard = new HardLimits(options.engine)
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
    const ready = rows.all().filter(({ state }) => state === 'ready')
    const limits = ready.map((row) => ({ volumeId: row.id, ...this.limitsOf(row) }))
    await this.#hard
      .set(limits)
      .catch((err: unknown) => log.warn({ err }, 'limits of volumes are measured only'))
    // No crash leaves these. They may be the last copy of a user's work after an older state.db was restored.
    if (strays.length > 0) log.warn({ volumes: strays }, 'found volumes without a record; they are kept')
  }

  async create(
    { name, sizeBytes }: { name: string; sizeBytes?: number },
    caller: Caller,
  ): Promise<VolumeAnswer> {
    const { engine } = this.#options
    const row = this.#newRow({ name, sizeBytes }, caller)
    return this.#make(row, async () => {
      this.#hard.add(row.id, this.limitsOf(row), await engine.createVolume(row.id, this.limitsOf(row)))
    })
  }

  async clone(
    name: string,
    { sizeBytes, ...clone }: { name: string; readOnly: boolean; sizeBytes?: number },
    caller: Caller,
    signal: AbortSignal,
  ): Promise<VolumeAnswer> {
    const { rows, engine } = this.#options
    const from = findVolume(rows, name, caller)
    const row = {
      ...this.#newRow({ name: clone.name, sizeBytes: sizeBytes ?? this.limitsOf(from).bytes }, caller),
      ...{ readOnly: clone.readOnly, clonedFrom: from.name },
    }
    let oneMoment = false
    const view = await this.#make(row, async () => {
      const limits = this.limitsOf(row)
      const made = await engine.cloneVolume({ from: from.id, to: row.id, limits, signal })
      this.#hard.add(row.id, limits, made.sizeLimit)
      oneMoment = made.isOneMoment
    })
    this.written.add(row.id)
    return { ...view, oneMoment }
  }

  #newRow({ name, sizeBytes }: { name: string; sizeBytes: number | undefined }, caller: Caller): VolumeRow {
    const { rows, now, requireRoom, checkSize } = this.#options
    requireRoom(caller.keyId)
    if (sizeBytes !== undefined) checkSize(caller.keyId, sizeBytes)
    if (rows.count(caller.keyId) >= VOLUMES_PER_OWNER)
      throw new DormouseError('limit_reached', `A key may have ${VOLUMES_PER_OWNER} volumes.`, {
        hint: 'Delete one that you no longer need.',
      })
    return {
      id: newVolumeId(),
      owner: caller.keyId,
      name,
      state: 'creating',
      createdAt: now(),
      ...{ bytes: undefined, files: undefined, sizeBytes, readOnly: false, clonedFrom: undefined },
    }
  }

  async #make(row: VolumeRow, make: () => Promise<void>): Promise<VolumeAnswer> {
    const { rows, log } = this.#options
    rows.add(row)
    try {
      await make()
      rows.setState(row.id, 'ready')
    } catch (error) {
      // The next start removes what is left.
      await this.#remove(row).catch((err: unknown) =>
        log.warn({ volume: row.id, err }, 'a volume that was not created could not be removed'),
      )
      throw error
    }
    return this.#view(row, { keyId: row.owner, isAdmin: false })
  }

  list(query: { limit: number; cursor?: string }, caller: Caller): Page<VolumeAnswer> {
    const { items, nextCursor } = this.#options.rows.list(query, caller.isAdmin ? undefined : caller.keyId)
    return { items: items.map((row) => this.#view(row, caller)), nextCursor }
  }

  async get(name: string, caller: Caller): Promise<VolumeAnswer> {
    const { rows, engine } = this.#options
    const row = findVolume(rows, name, caller)
    using measurement = await engine.measureVolume(row.id)
    const use = await measurement.advance(MEASURE_TIMEOUT_MS)
    if (use !== undefined) rows.setUse(row.id, use)
    return this.#view({ ...row, ...(use && { bytes: use.bytes, files: use.files }) }, caller)
  }

  async update(name: string, { sizeBytes }: { sizeBytes: number }, caller: Caller): Promise<VolumeAnswer> {
    const { rows, checkSize } = this.#options
    const row = this.#own(name, caller)
    if (sizeBytes > this.limitsOf(row).bytes) checkSize(row.owner, sizeBytes)
    rows.setSize(row.id, sizeBytes)
    await this.keepHard({ ...row, sizeBytes })
    return this.#view({ ...row, sizeBytes }, caller)
  }

  share(name: string, { key, access }: { key: string; access: ShareAccess }, caller: Caller): VolumeAnswer {
    const { rows, onUnshared } = this.#options
    const row = this.#own(name, caller)
    const { keyId } = this.#key(key)
    if (keyId === row.owner)
      throw new DormouseError('invalid_argument', 'key: the volume belongs to this key already')
    rows.putShare(row.id, { keyId, access })
    if (access === 'read') onUnshared(row.id, keyId)
    return this.#view(row, caller)
  }

  /** Sandboxes of that key that use the volume are put to standby, and do not wake before they detach it. */
  unshare(name: string, key: string, caller: Caller): void {
    const { rows, findKey, onUnshared } = this.#options
    const row = this.#own(name, caller)
    // A share may outlive its key.
    const keyId = findKey(key)?.keyId ?? key
    if (!rows.deleteShare(row.id, keyId))
      throw new DormouseError('not_found', `The volume "${name}" is not shared with "${key}".`)
    onUnshared(row.id, keyId)
  }

  /** Throws `permission_denied` when a key may not use volumes any more that its sandbox mounts. */
  requireUsable(mounts: readonly MountedVolume[], owner: string): void {
    requireStillMountable(this.#options.rows, mounts, owner)
  }

  /** Throws `not_found`. Writing throws `permission_denied` and `limit_reached`. */
  files(name: string, caller: Caller): VolumeFiles {
    const { rows, engine } = this.#options
    const row = findVolume(rows, name, caller)
    const files = engine.volumeFiles(row.id)
    const change = async <Value>(work: () => Promise<Value>): Promise<Value> => {
      const access = caller.isAdmin ? 'own' : accessOf(rows, row, caller.keyId)
      if (row.readOnly || access === 'read') throw readOnly(row, access)
      this.written.add(row.id)
      return await work()
    }
    return {
      ...files,
      write: (path, data, options) =>
        change(async () => {
          const { bytes: used = 0 } = rows.get(row.id) ?? row
          this.#requireRoom(row)
          const bytesMax = this.limitsOf(row).bytes - used
          const stat = await files.write(path, data, { ...options, bytesMax })
          // Until it is measured: many uploads in a row must not each have all the room.
          const now = rows.get(row.id)
          if (now !== undefined)
            rows.setUse(row.id, { bytes: (now.bytes ?? 0) + stat.sizeBytes, files: (now.files ?? 0) + 1 })
          return stat
        }),
      mkdir: (...args) => change(() => files.mkdir(...args)),
      move: (...args) => change(() => files.move(...args)),
      remove: (...args) => change(() => files.remove(...args)),
    }
  }

  /** Applies a hard limit that has changed, for example with the default size or a limit of its key. */
  async keepHard(row: VolumeRow): Promise<void> {
    await this.#hard.keep(row.id, this.limitsOf(row))
  }

  /** What the server itself has to watch: nothing where the kernel does. */
  watchedLimitsOf(row: VolumeRow): VolumeLimits {
    const none = { bytes: Number.POSITIVE_INFINITY, files: Number.POSITIVE_INFINITY }
    return this.#hard.has(row.id) ? none : this.limitsOf(row)
  }

  limitsOf({ owner, sizeBytes }: VolumeRow): VolumeLimits {
    const { defaultBytes, filesMax } = this.#options
    return { bytes: sizeBytes ?? defaultBytes(owner), files: filesMax }
  }

  /** Throws `limit_reached` when a writable volume exceeds its limits. */
  requireRoomIn(mounts: readonly MountedVolume[]): void {
    for (const { volumeId, readOnly: isReadOnly } of mounts) {
      const row = isReadOnly ? undefined : this.#options.rows.get(volumeId)
      if (row !== undefined) this.#requireRoom(row)
    }
  }

  #requireRoom(volume: VolumeRow): void {
    const row = this.#options.rows.get(volume.id) ?? volume
    const limits = this.watchedLimitsOf(row)
    if (!isOver(row, limits)) return
    const [used, limit, what] =
      (row.bytes ?? 0) > limits.bytes
        ? [row.bytes, limits.bytes, 'bytes']
        : [row.files, limits.files, 'files']
    throw new DormouseError(
      'limit_reached',
      `The volume "${row.name}" holds ${used} ${what}; it may hold ${limit}.`,
      {
        hint: 'Raise its limit with `dormouse volume update VOLUME --size SIZE` (`sizeBytes` in the API), or delete files in it with `dormouse volume rm-file`.',
        details: {
          limit: what === 'bytes' ? 'sizeBytes' : 'files',
          volume: row.name,
          used,
          limitOfVolume: limit,
        },
      },
    )
  }

  async delete(name: string, caller: Caller): Promise<void> {
    const { rows } = this.#options
    const row = this.#own(name, caller)
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
      const { rows } = this.#options
      const row = findVolume(rows, mount.volume, { ...caller, isAdmin: false })
      requireMountable(rows, row, mount, caller.keyId)
      return { ...mount, volumeId: row.id }
    })
  }

  async #remove({ id }: VolumeRow): Promise<void> {
    await this.#options.engine.deleteVolume(id)
    this.#options.rows.delete(id)
  }

  /** One that the caller may delete, resize and share. */
  #own(name: string, caller: Caller): VolumeRow {
    const { rows } = this.#options
    const row = findVolume(rows, name, caller)
    if (row.owner === caller.keyId || caller.isAdmin) return row
    throw new DormouseError('permission_denied', `The volume "${name}" belongs to another key.`, {
      hint: 'Only the key that a volume belongs to resizes, shares and deletes it.',
    })
  }

  #key(ref: string): { readonly keyId: string; readonly name: string } {
    const found = this.#options.findKey(ref)
    if (found !== undefined) return found
    throw new DormouseError('not_found', `There is no key "${ref}", or several have this name.`, {
      hint: 'Name the key by its id. The admin of the server lists keys with `dormouse key ls`.',
    })
  }

  #usedBy(id: VolumeId): SandboxId[] {
    const { rows, mountedIn } = this.#options
    return [...new Set([...rows.sandboxesOf(id), ...mountedIn(id)])]
  }

  #view(row: VolumeRow, caller: Caller): VolumeAnswer {
    const { rows, findKey } = this.#options
    const access = row.owner === caller.keyId || caller.isAdmin ? 'own' : accessOf(rows, row, caller.keyId)
    const shares = access === 'own' ? rows.sharesOf(row.id) : []
    return {
      name: row.name,
      createdAt: new Date(row.createdAt).toISOString(),
      ...{ bytes: row.bytes, files: row.files, sizeBytes: this.limitsOf(row).bytes },
      sizeLimit: this.#hard.has(row.id) ? 'hard' : 'measured',
      usedBy: this.#usedBy(row.id),
      access: access ?? 'read',
      ...{ readOnly: row.readOnly, clonedFrom: row.clonedFrom },
      sharedWith: shares.map((share) => ({ ...share, name: findKey(share.keyId)?.name ?? share.keyId })),
    }
  }
}
