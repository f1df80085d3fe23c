import { existsSync } from 'node:fs'
import { link, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { withTimeout } from '@dormouse/async'
import { DormouseError, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { ArrivingPart, SparseFile } from '@dormouse/engine'
import {
  type ArrivingFile,
  arrivingDir,
  type BeginArrival,
  explainFullDisk,
  isArriving,
  type MemoryByName,
  syncDirectory,
} from '@dormouse/engine-linux/for-engines'
import { type SavedPaths, savedPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { type Base, disksOf, type Manifest, readManifest } from '../storage/manifest.ts'
import { type ArrivedFiles, type ArrivingDisk, damaged, fetchFile } from './arrived-files.ts'
import { problemHere } from './machine-needs.ts'
import { type MicrovmSnapshotStore, sumPages } from './snapshot-store.ts'
import { syncFile } from './take-snapshot.ts'

/** Without it a machine cannot wait for pages that are missing, so nothing may be missing. */
const FUSE = '/dev/fuse'
/** A wake does not wait longer for memory that another snapshot brings. */
const SHARED_TIMEOUT_MS = 60_000

export interface TransferOf {
  readonly host: MicrovmHost
  readonly store: MicrovmSnapshotStore
  readonly arrived: ArrivedFiles
}

/** `machine/SNAPSHOT/NAME`: a file of this snapshot alone. */
const OWN = /^machine\/(?<id>[\w-]+)\/(?<name>manifest\.json|state|memory\.map|touched|volumes\/\w[\w.-]*)$/
/** `machine/disks/NAME` or `machine/memory/NAME`: names are never used again, but for disks that each host builds. */
const SHARED = /^machine\/(?<kind>disks|memory)\/(?<name>\w[\w.-]*)(?:\/(?<modifiedNs>\d+))?$/

/** What the snapshot has of its own, and what it shares, by `disks/NAME` and `memory/NAME`. */
interface Arriving {
  readonly own: ReadonlyMap<string, SparseFile>
  readonly shared: ReadonlyMap<string, ArrivingDisk>
}

interface ImportSnapshot {
  readonly id: SnapshotId
  readonly parts: readonly ArrivingPart[]
  readonly origin: string
}

/** Post: the snapshot can be restored. Its memory files may follow. */
export async function importSnapshot(of: TransferOf, { id, parts, origin }: ImportSnapshot): Promise<void> {
  const { layout, arrivals } = of.host
  const final = layout.snapshot(id)
  // An import that failed after it had published the snapshot has not begun to fetch its memory.
  if (existsSync(final.manifest)) return await resumeArrival(of, id, parts)
  const work = savedPaths(join(layout.snapshotsDir, `.taking-${newSnapshotId()}`))
  const arriving = sortParts(id, parts)
  if (!arriving.own.has('manifest.json')) throw damaged('the depot has nothing of it')
  await of.arrived.use(async () => {
    let files: readonly ArrivingFile[] = []
    try {
      const manifest = await fetchOwn(of.host, { id, work, own: arriving.own })
      const memory = await putShared(of, { work, base: manifest.base, arriving })
      if (memory.size > 0)
        files = await arrivals.prepare({ dir: work.dir, memoryDir: work.memory, memory }, origin)
      await syncPrepared(work, memory)
      await rename(work.dir, final.dir)
      await syncDirectory(layout.snapshotsDir)
      if (memory.size > 0) arrivals.start(beginOf(of, manifest, memory), files, await touchedIn(final))
    } catch (error) {
      for (const file of files) await file.close()
      await rm(work.dir, { recursive: true, force: true })
      throw explainFullDisk(error)
    }
    if (!existsSync(FUSE)) await arrivals.require(id)
  })
}

/** What no other snapshot has. */
async function fetchOwn(
  host: MicrovmHost,
  { id, work, own }: { id: SnapshotId; work: SavedPaths; own: Arriving['own'] },
): Promise<Manifest> {
  for (const path of [work.dir, work.disks, work.memory, work.volumes]) await mkdir(path, { mode: 0o700 })
  for (const [name, file] of own)
    await fetchFile(join(work.dir, name), file, name === 'memory.map' ? 0o644 : 0o600)
  const manifest = await readManifest(work.manifest, id)
  if (manifest.id !== id) throw damaged('the depot has another snapshot under its name')
  const problem = problemHere(host, manifest.base)
  if (problem !== undefined) throw damaged(problem)
  return manifest
}

/** Empty memory files have their size, and the mark that they are empty is there, whatever happens. */
async function syncPrepared(work: SavedPaths, memory: MemoryByName): Promise<void> {
  const maps = arrivingDir(work.dir)
  if (memory.size > 0) {
    for (const name of memory.keys()) await syncFile(join(work.memory, name))
    for (const name of await readdir(maps)) await syncFile(join(maps, name))
    await syncDirectory(maps)
  }
  for (const path of [work.volumes, work.memory, work.disks, work.dir]) await syncDirectory(path)
}

function beginOf(of: TransferOf, manifest: Manifest, memory: MemoryByName): BeginArrival {
  const { id } = manifest
  const { dir, memory: memoryDir } = of.host.layout.snapshot(id)
  const finish = () => finishMemory(of, manifest, [...memory.keys()])
  return { id, dir, memoryDir, memory, finish }
}

/** Post: memory files that have arrived are on disk, and the next snapshots have them. */
async function finishMemory(
  { host, arrived }: TransferOf,
  { id, sums }: Manifest,
  names: readonly string[],
): Promise<void> {
  const { memory, map } = host.layout.snapshot(id)
  for (const name of names) {
    const path = join(memory, name)
    await syncFile(path)
    // Each chunk was checked. The sum of the snapshot that wrote the file also says that nothing is missing.
    const sum = sums[`memory/${name}`]
    if (sum !== undefined && (await sumPages(path, map)) !== sum)
      throw damaged(`the memory file ${name} is damaged`)
    await arrived.add(memoryKey(name), path)
  }
}

/** Empty when an earlier version has taken the snapshot. */
function touchedIn({ touched }: SavedPaths): Promise<string> {
  return readFile(touched, 'utf8').catch(() => '')
}

/** Continues where an earlier server ended. */
export async function resumeArrival(
  of: TransferOf,
  id: SnapshotId,
  parts: readonly ArrivingPart[],
): Promise<void> {
  const manifest = await of.store.get(id)
  const { dir } = of.host.layout.snapshot(id)
  const { shared } = sortParts(id, parts)
  const memory = new Map<string, SparseFile>()
  for (const name of manifest.base.memory) {
    const part = shared.get(`memory/${name}`)
    if (part !== undefined && isArriving(dir, name)) memory.set(name, part.file)
  }
  if (memory.size > 0)
    await of.host.arrivals.resume(beginOf(of, manifest, memory), await touchedIn(of.host.layout.snapshot(id)))
}

function sortParts(id: SnapshotId, parts: readonly ArrivingPart[]): Arriving {
  const own = new Map<string, SparseFile>()
  const shared = new Map<string, ArrivingDisk>()
  for (const part of parts) {
    if (part.kind !== 'file') throw damaged('the depot has another kind of snapshot under its name')
    const { key, file } = part
    const mine = OWN.exec(key)?.groups
    if (mine?.['id'] === id && mine['name'] !== undefined) own.set(mine['name'], file)
    const { kind, name, modifiedNs } = SHARED.exec(key)?.groups ?? {}
    if (kind === undefined || mine !== undefined) continue
    const time = modifiedNs === undefined ? undefined : BigInt(modifiedNs)
    shared.set(`${kind}/${name}`, { key, file, modifiedNs: time })
  }
  return { own, shared }
}

/** Puts what this host has or fetches in its place. Returns the memory files that follow. */
async function putShared(
  of: TransferOf,
  { work, base, arriving }: { work: SavedPaths; base: Base; arriving: Arriving },
): Promise<MemoryByName> {
  const { host, arrived } = of
  const partOf = (place: string) => {
    const part = arriving.shared.get(place)
    if (part === undefined) throw damaged(`${place} is missing`)
    return part
  }
  for (const name of disksOf(base)) {
    const part = partOf(`disks/${name}`)
    const here = host.diskFile(work.disks, base, name)
    const path = join(work.disks, name)
    if (!(await isThere(here, part.modifiedNs))) await arrived.put(part, path)
    // Those of this host stay where they are: its template may be on another file system.
    else if (part.modifiedNs === undefined) await link(here, path).catch(() => {})
  }
  const memory = new Map<string, SparseFile>()
  for (const name of base.memory) {
    const { file } = partOf(`memory/${name}`)
    const here = host.memoryFile(work.memory, base, name)
    const path = join(work.memory, name)
    if (existsSync(here)) await link(here, path).catch(() => {})
    else if (!(await linkArrived(of, name, path))) memory.set(name, file)
  }
  return memory
}

/** Snapshots of one template share a large memory file: the second one waits until the first one has brought it. */
async function linkArrived(
  { host: { arrivals }, arrived }: TransferOf,
  name: string,
  path: string,
): Promise<boolean> {
  const other = arrivals.findArriving(name)
  // If it is deleted first, or its depot lacks something, this one is fetched for itself.
  const isOver = arrivals.require(other).catch(() => {})
  await withTimeout(isOver, SHARED_TIMEOUT_MS, tooLate)
  return arrived.link(memoryKey(name), path)
}

/** Of a memory file in the depot, and among the files that have arrived. */
export function memoryKey(name: string): string {
  return `machine/memory/${name}`
}

function tooLate(): DormouseError {
  return new DormouseError('host_unavailable', 'Memory that the snapshot shares is still in the depot.', {
    hint: 'Try again: it is on its way.',
    details: { retryAfterMs: 1_000 },
  })
}

/** Whether this host has the file with its template. */
async function isThere(path: string, modifiedNs: bigint | undefined): Promise<boolean> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  return found !== undefined && (modifiedNs === undefined || found.mtimeNs === modifiedNs)
}
