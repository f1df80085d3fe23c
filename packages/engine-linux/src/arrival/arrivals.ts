import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { withTimeout } from '@dormouse/async'
import {
  type BurrowId,
  DormouseError,
  hasErrorCode,
  isBurrowId,
  isSnapshotId,
  type SnapshotId,
} from '@dormouse/contracts'
import type { ArrivingSnapshot, SparseFile } from '@dormouse/engine'
import type { FailureLog } from '../host/failure-log.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { Arrival } from './arrival.ts'
import { ArrivingFile, type FileRights } from './arriving-file.ts'
import { arrivedDir, arrivingDir } from './arriving-files.ts'
import { connectTo, type MemoryMount, type MemoryPlace, mountMemory } from './memory-mount.ts'

const ORIGIN = 'origin.json'
const BOOT_ID = '/proc/sys/kernel/random/boot_id'
const PAGE_BYTES = 4096
/** How long a restore waits for memory of a depot that does not answer, or is slow. */
export const ARRIVAL_TIMEOUT_MS = 5 * 60_000

/** The memory of a snapshot that is on its way: by the name of the memory file. */
export type MemoryByName = ReadonlyMap<string, SparseFile>

export interface ArrivalsOptions {
  readonly failures: FailureLog
  readonly snapshotsDir: string
  /** Of memory files. */
  readonly rights: FileRights
  readonly burrowsDir: string
  /** The snapshot that a burrow was made from, and where it sees memory files that arrive. */
  readonly findBurrow: (
    id: BurrowId,
  ) => Promise<{ readonly parent: SnapshotId | undefined; readonly place: MemoryPlace }>
}

export interface BeginArrival {
  readonly id: SnapshotId
  /** Of the snapshot, and of its memory files. */
  readonly dir: string
  readonly memoryDir: string
  readonly memory: MemoryByName
  /** Called when all bytes are here. Post: the files are what they must be, and on disk. */
  readonly finish: () => Promise<void>
}

/**
 * Snapshots whose memory is still on its way to this host. They can be restored: their burrows wait for pages that are
 * missing. Everything that reads memory files as a whole waits for `require`.
 */
export class Arrivals implements AsyncDisposable {
  readonly #options: ArrivalsOptions
  readonly #running = new Map<SnapshotId, { readonly arrival: Arrival; readonly memory: MemoryByName }>()
  /** Why the rest of a snapshot cannot be fetched. */
  readonly #lost = new Map<SnapshotId, unknown>()
  readonly #channels = new Map<SnapshotId, Set<Socket>>()
  /** Channels of mounts that burrows do not have for themselves yet. A mount whose channel ends now would go. */
  readonly #unhidden = new Set<Socket>()
  #arrivedBytes = 0

  constructor(options: ArrivalsOptions) {
    this.#options = options
  }

  get arrivedBytes(): number {
    return this.#arrivedBytes
  }

  isArriving(id: SnapshotId): boolean {
    return existsSync(this.#dirOf(id))
  }

  /**
   * Makes empty memory files in a snapshot that is not published yet. `start` fetches their content, and closes them; if
   * it is not called, the caller does.
   */
  async prepare(
    begin: Pick<BeginArrival, 'dir' | 'memoryDir' | 'memory'>,
    origin: string,
  ): Promise<readonly ArrivingFile[]> {
    const maps = arrivingDir(begin.dir)
    await mkdir(maps, { mode: 0o700 })
    // The caller syncs it with the rest of the snapshot.
    await writeFile(join(maps, ORIGIN), JSON.stringify({ origin, bootId: await readBootId() }), {
      mode: 0o600,
    })
    const { rights } = this.#options
    return await openAll(placesOf(begin), (place) => ArrivingFile.create(place, rights))
  }

  /** Pre: the snapshot is published. */
  start(begin: BeginArrival, files: readonly ArrivingFile[], ahead: string): void {
    const { id, memory } = begin
    const { failures } = this.#options
    const fields = { snapshotId: id }
    const arrival = Arrival.start({
      files,
      workingSet: workingSetOf(ahead, files),
      onChunk: (bytes) => {
        this.#arrivedBytes += bytes
        for (const channel of this.#channels.get(id) ?? []) channel.write('g')
      },
      onFailure: (error) =>
        failures.report('arrival', error, fields, 'memory of a snapshot has not arrived yet'),
      finish: () => this.#finish(begin),
    })
    this.#running.set(id, { arrival, memory })
    this.#lost.delete(id)
    const close = async () => {
      for (const file of files) await file.close()
      this.#running.delete(id)
      for (const channel of this.#channels.get(id) ?? []) if (!this.#unhidden.has(channel)) channel.end()
      this.#channels.delete(id)
    }
    void arrival.done.then(close, async (error: unknown) => {
      if (hasErrorCode(error, 'snapshot_unusable')) this.#lost.set(id, error)
      await close()
    })
  }

  /** Why a snapshot will never arrive, if that is known. */
  lossOf(id: SnapshotId | undefined): unknown {
    return id === undefined ? undefined : (this.#running.get(id)?.arrival.loss ?? this.#lost.get(id))
  }

  /** A snapshot with which a memory file of this name is on its way. */
  findArriving(name: string): SnapshotId | undefined {
    return [...this.#running].find(([, { memory }]) => memory.has(name))?.[0]
  }

  /** Shows the memory files of a burrow while they arrive. Undefined when all of the snapshot is here. */
  mountFor(id: SnapshotId): ((place: MemoryPlace) => Promise<MemoryMount>) | undefined {
    if (!this.isArriving(id)) return undefined
    const loss = this.lossOf(id)
    if (loss !== undefined) throw loss
    if (!this.#running.has(id)) throw notResumed(id)
    return async (place) => {
      const { channel, ...mount } = await mountMemory(place, this.#dirOf(id))
      this.#unhidden.add(channel)
      channel.once('close', () => this.#unhidden.delete(channel))
      this.#listen(id, channel)
      const hide = () => {
        mount.hide()
        this.#unhidden.delete(channel)
        // All may have arrived while the burrow was launched.
        if (!this.#running.has(id)) channel.end()
      }
      return { ...mount, channel, hide }
    }
  }

  /** Post: all of the snapshot is on disk. */
  async require(id: SnapshotId | undefined): Promise<void> {
    if (id === undefined || !this.isArriving(id)) return
    const running = this.#running.get(id)
    if (running === undefined) throw this.#lost.get(id) ?? notResumed(id)
    running.arrival.hurry()
    await running.arrival.done
  }

  /** The same for a restore: its sandbox can do nothing else meanwhile, and the next restore finds what has come. */
  async requireInTime(id: SnapshotId): Promise<void> {
    await withTimeout(this.require(id), ARRIVAL_TIMEOUT_MS, () => tooLate(id))
  }

  /** For a snapshot that is deleted. */
  async stop(id: SnapshotId): Promise<void> {
    await this.#running.get(id)?.arrival.stop()
    this.#lost.delete(id)
  }

  /** Snapshots that an earlier server did not get to. */
  async interrupted(): Promise<ArrivingSnapshot[]> {
    const ids = (await readdir(this.#options.snapshotsDir)).filter(isSnapshotId)
    const found = ids.filter((id) => this.isArriving(id) && !this.#running.has(id))
    return Promise.all(found.map(async (id) => ({ id, origin: (await this.#originOf(id)).origin })))
  }

  /** Continues where an earlier server ended, also for burrows that have run meanwhile. */
  async resume(begin: BeginArrival, ahead: string): Promise<void> {
    const { id } = begin
    if (this.#running.has(id) || !this.isArriving(id)) return
    const isTrusted = (await this.#originOf(id)).bootId === (await readBootId())
    const files = await openAll(placesOf(begin), (place) => ArrivingFile.open(place, { isTrusted }))
    this.start(begin, files, ahead)
    const { burrowsDir, findBurrow } = this.#options
    for (const burrow of (await readdir(burrowsDir)).filter(isBurrowId)) {
      const { parent, place } = await findBurrow(burrow).catch(() => ({
        parent: undefined,
        place: undefined,
      }))
      if (parent !== id || place === undefined || !existsSync(place.socket)) continue
      const channel = await connectTo(place.socket).catch(() => undefined)
      if (channel !== undefined) this.#listen(id, channel)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ arrival }) => arrival.stop()))
  }

  #listen(id: SnapshotId, channel: Socket): void {
    const channels = this.#channels.get(id) ?? new Set()
    this.#channels.set(id, channels.add(channel))
    channel.once('close', () => channels.delete(channel))
    const lines = createInterface({ input: channel })
    // The program ends with its burrow, also in the middle of a line. The channel's `close` follows.
    lines.on('error', () => {})
    lines.on('line', (line) => {
      const [, name, first, count] = /^(\S+) (\d+) (\d+)$/.exec(line) ?? []
      if (name === undefined) return
      const range = { offset: Number(first) * PAGE_BYTES, lengthBytes: Number(count) * PAGE_BYTES }
      this.#running.get(id)?.arrival.want(name, range)
    })
    // Pages may have come before the channel did.
    channel.write('g')
  }

  async #finish({ dir, finish }: BeginArrival): Promise<void> {
    await finish()
    // In one step: a server that ends in between must not leave some of the maps.
    await rename(arrivingDir(dir), arrivedDir(dir))
    await syncDirectory(dir)
    await rm(arrivedDir(dir), { recursive: true, force: true })
  }

  async #originOf(id: SnapshotId): Promise<{ origin: string; bootId: string }> {
    return JSON.parse(await readFile(join(this.#dirOf(id), ORIGIN), 'utf8'))
  }

  #dirOf(id: SnapshotId): string {
    return arrivingDir(join(this.#options.snapshotsDir, id))
  }
}

/** On failure none stays open. */
async function openAll<Place>(
  places: readonly Place[],
  open: (place: Place) => Promise<ArrivingFile>,
): Promise<ArrivingFile[]> {
  const files: ArrivingFile[] = []
  try {
    for (const place of places) files.push(await open(place))
    return files
  } catch (error) {
    for (const file of files) await file.close()
    throw error
  }
}

function placesOf({ dir, memoryDir, memory }: Pick<BeginArrival, 'dir' | 'memoryDir' | 'memory'>) {
  return [...memory].map(([name, content]) => {
    const places = { path: join(memoryDir, name), mapPath: join(arrivingDir(dir), name) }
    return { name, memory: content, ...places }
  })
}

/** The list of file ranges in the form that native/src/read-ahead.h describes. */
function workingSetOf(ahead: string, files: readonly ArrivingFile[]) {
  const found: { file: ArrivingFile; chunk: number }[] = []
  let file: ArrivingFile | undefined
  for (const line of ahead.split('\n')) {
    const [kind, rest] = [line.slice(0, 2), line.slice(2)]
    if (kind === 'm ' || kind === 'f ') {
      file = kind === 'm ' ? files.find(({ name }) => name === rest) : undefined
      continue
    }
    const [, offset, lengthBytes] = /^(\d+) (\d+)$/.exec(line) ?? []
    if (file === undefined || offset === undefined) continue
    for (const chunk of file.chunksAt(Number(offset), Number(lengthBytes))) found.push({ file, chunk })
  }
  return found
}

export function tooLate(id: SnapshotId): DormouseError {
  return new DormouseError(
    'host_unavailable',
    `Memory of the snapshot ${id} has not come from the depot in time.`,
    {
      hint: 'The server continues to fetch it. Try again.',
      details: { retryAfterMs: 5_000 },
    },
  )
}

function notResumed(id: SnapshotId): DormouseError {
  return new DormouseError('host_unavailable', `Memory of the snapshot ${id} is still in the depot.`, {
    hint: 'The server fetches it when it has joined its cluster again.',
    details: { retryAfterMs: 1_000 },
  })
}

let bootId: Promise<string> | undefined

function readBootId(): Promise<string> {
  bootId ??= readFile(BOOT_ID, 'utf8').then((text) => text.trim())
  return bootId
}
