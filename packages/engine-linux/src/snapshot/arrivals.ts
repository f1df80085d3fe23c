import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { withTimeout } from '@dormouse/async'
import { DormouseError, isBurrowId, isSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { ArrivingSnapshot, SparseFile } from '@dormouse/engine'
import { findRecord } from '../burrow/burrow-record.ts'
import { connectTo, type MemoryMount, memorySocket, mountMemory } from '../burrow/memory-mount.ts'
import type { FailureLog } from '../host/failure-log.ts'
import type { BurrowPaths, Layout, SnapshotPaths } from '../host/layout.ts'
import { runCommandOrFail } from '../host/run-command.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { PageWorker } from '../image/page-worker.ts'
import { arrivedDir, arrivingDir } from '../storage/arriving-files.ts'
import type { FullManifest } from '../storage/manifest.ts'
import { damaged } from '../storage/verify-snapshot.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { Arrival } from './arrival.ts'
import { ArrivingFile } from './arriving-file.ts'

const ORIGIN = 'origin.json'
const BOOT_ID = '/proc/sys/kernel/random/boot_id'
const PAGE_BYTES = 4096
/** How long a restore waits for memory of a depot that does not answer, or is slow. */
export const ARRIVAL_TIMEOUT_MS = 5 * 60_000

/** The memory of a snapshot that is on its way: by the name of the memory file. */
export type MemoryByName = ReadonlyMap<string, SparseFile>

export interface BeginArrival {
  readonly paths: SnapshotPaths
  readonly manifest: FullManifest
  readonly memory: MemoryByName
}

/**
 * Snapshots whose memory is still on its way to this host. They can be restored: their burrows wait for pages that are
 * missing. Everything that reads memory files as a whole waits for `require`.
 */
export class Arrivals implements AsyncDisposable {
  readonly #layout: Layout
  readonly #failures: FailureLog
  readonly #running = new Map<SnapshotId, Arrival>()
  readonly #channels = new Map<SnapshotId, Set<Socket>>()
  /** Channels of mounts that burrows do not have for themselves yet. A mount whose channel ends now would go. */
  readonly #unhidden = new Set<Socket>()
  #arrivedBytes = 0

  constructor(layout: Layout, failures: FailureLog) {
    this.#layout = layout
    this.#failures = failures
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
  async prepare({ paths, memory }: BeginArrival, origin: string): Promise<readonly ArrivingFile[]> {
    const maps = arrivingDir(paths.dir)
    await mkdir(maps, { mode: 0o700 })
    // The caller syncs it with the rest of the snapshot.
    await writeFile(join(maps, ORIGIN), JSON.stringify({ origin, bootId: await readBootId() }), {
      mode: 0o600,
    })
    const places = [...memory].map(([name, content]) => placeOf(paths, name, content))
    return await openAll(places, (place) => ArrivingFile.create(place))
  }

  /** Pre: the snapshot is published. */
  start(begin: BeginArrival, files: readonly ArrivingFile[], ahead: string): void {
    const { id } = begin.manifest
    const fields = { snapshotId: id }
    const arrival = Arrival.start({
      files,
      workingSet: workingSetOf(ahead, files),
      onChunk: (bytes) => {
        this.#arrivedBytes += bytes
        for (const channel of this.#channels.get(id) ?? []) channel.write('g')
      },
      onFailure: (error) =>
        this.#failures.report('arrival', error, fields, 'memory of a snapshot has not arrived yet'),
      finish: () => this.#finish(begin),
    })
    this.#running.set(id, arrival)
    const close = async () => {
      for (const file of files) await file.close()
      this.#running.delete(id)
      for (const channel of this.#channels.get(id) ?? []) if (!this.#unhidden.has(channel)) channel.end()
      this.#channels.delete(id)
    }
    void arrival.done.then(close, close)
  }

  /** Shows the memory files of a burrow while they arrive. Undefined when all of the snapshot is here. */
  mountFor(id: SnapshotId): ((paths: BurrowPaths) => Promise<MemoryMount>) | undefined {
    if (!this.isArriving(id)) return undefined
    if (!this.#running.has(id)) throw notResumed(id)
    return async (paths) => {
      const { channel, ...mount } = await mountMemory(paths, this.#dirOf(id))
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
    const arrival = this.#running.get(id)
    if (arrival === undefined) throw notResumed(id)
    arrival.hurry()
    await arrival.done
  }

  /** The same for a restore: its sandbox can do nothing else meanwhile, and the next restore finds what has come. */
  async requireInTime(id: SnapshotId): Promise<void> {
    await withTimeout(this.require(id), ARRIVAL_TIMEOUT_MS, () => tooLate(id))
  }

  /** For a snapshot that is deleted. */
  async stop(id: SnapshotId): Promise<void> {
    await this.#running.get(id)?.stop()
  }

  /** Snapshots that an earlier server did not get to. */
  async interrupted(): Promise<ArrivingSnapshot[]> {
    const ids = (await readdir(this.#layout.snapshotsDir)).filter(isSnapshotId)
    const found = ids.filter((id) => this.isArriving(id) && !this.#running.has(id))
    return Promise.all(found.map(async (id) => ({ id, origin: (await this.#originOf(id)).origin })))
  }

  /** Continues where an earlier server ended, also for burrows that have run meanwhile. */
  async resume(begin: BeginArrival, ahead: string): Promise<void> {
    const { paths, manifest, memory } = begin
    if (this.#running.has(manifest.id) || !this.isArriving(manifest.id)) return
    const isTrusted = (await this.#originOf(manifest.id)).bootId === (await readBootId())
    const places = [...memory].map(([name, content]) => placeOf(paths, name, content))
    const files = await openAll(places, (place) => ArrivingFile.open(place, { isTrusted }))
    this.start(begin, files, ahead)
    for (const burrow of (await readdir(this.#layout.burrowsDir)).filter(isBurrowId)) {
      const burrowPaths = this.#layout.burrow(burrow)
      const record = await findRecord(burrowPaths.record).catch(() => undefined)
      if (record?.parent !== manifest.id || !existsSync(memorySocket(burrowPaths))) continue
      const channel = await connectTo(memorySocket(burrowPaths)).catch(() => undefined)
      if (channel !== undefined) this.#listen(manifest.id, channel)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#running.values()].map((arrival) => arrival.stop()))
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
      this.#running.get(id)?.want(name, range)
    })
    // Pages may have come before the channel did.
    channel.write('g')
  }

  /** The memory files are what the manifest says, and on disk. Only then they are complete. */
  async #finish({ paths, manifest, memory }: BeginArrival): Promise<void> {
    const arrived = manifest.memory.filter(({ name }) => memory.has(name))
    for (const { name, mtimeNs } of arrived) {
      const time = `@${mtimeNs / 1_000_000_000n}.${String(mtimeNs % 1_000_000_000n).padStart(9, '0')}`
      const argv = ['touch', '--no-create', '--date', time, join(paths.memory, name)] as const
      await runCommandOrFail({ argv }, 'finishing a memory file')
    }
    await using worker = new PageWorker()
    const sums = await worker.recall(arrived.map(({ name }) => join(paths.memory, name)))
    const wrong = arrived.find(({ checksum }, index) => sums[index]?.checksum !== checksum)
    if (wrong !== undefined) throw damaged(`the memory file ${wrong.name} is damaged`)
    await worker.sync([paths.memory])
    // In one step: a server that ends in between must not leave some of the maps.
    await rename(arrivingDir(paths.dir), arrivedDir(paths.dir))
    await syncDirectory(paths.dir)
    await rm(arrivedDir(paths.dir), { recursive: true, force: true })
  }

  async #originOf(id: SnapshotId): Promise<{ origin: string; bootId: string }> {
    return JSON.parse(await readFile(join(this.#dirOf(id), ORIGIN), 'utf8'))
  }

  #dirOf(id: SnapshotId): string {
    return arrivingDir(this.#layout.snapshot(id).dir)
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

function placeOf(paths: SnapshotPaths, name: string, memory: SparseFile) {
  const places = { path: join(paths.memory, name), mapPath: join(arrivingDir(paths.dir), name) }
  return { name, memory, owner: UID_BASE, ...places }
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
