import { existsSync } from 'node:fs'
import { link, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type {
  ArrivingPart,
  PortablePart,
  PortableSnapshot,
  SnapshotTransfer,
  SparseFile,
} from '@dormouse/engine'
import { explainFullDisk, readExtents, syncDirectory } from '@dormouse/engine-linux/for-engines'
import { type SavedPaths, savedPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { type Base, disksOf, type Manifest, readManifest } from '../storage/manifest.ts'
import { type ArrivedFiles, damaged, fetchFile } from './arrived-files.ts'
import { describeMachines, machineProblem, problemHere } from './machine-needs.ts'
import type { MicrovmSnapshotStore } from './snapshot-store.ts'

export interface TransferOf {
  readonly host: MicrovmHost
  readonly store: MicrovmSnapshotStore
  readonly arrived: ArrivedFiles
}

/** `machine/SNAPSHOT/NAME`: a file of this snapshot alone. */
const OWN = /^machine\/(?<id>[\w-]+)\/(?<name>manifest\.json|state|memory\.map|volumes\/\w[\w.-]*)$/
/** `machine/disks/NAME` or `machine/memory/NAME`: names are never used again, but for disks that each host builds. */
const SHARED = /^machine\/(?<kind>disks|memory)\/(?<name>\w[\w.-]*)(?:\/(?<modifiedNs>\d+))?$/

/** Snapshots of machines that travel between hosts: one part for each file. All of them arrive before a wake. */
export function machineTransfer(of: TransferOf): SnapshotTransfer {
  return {
    problemOf: machineProblem,
    problemOfTemplate: (_name, abilities) =>
      abilities === undefined ? machineProblem({}, undefined) : undefined,
    abilities: () => describeMachines(of.host),
    export: (id, work) => exportSnapshot(of, id, work),
    import: (id, parts) => importSnapshot(of, id, parts),
    interrupted: async () => [],
    resume: async () => {},
    untilArrived: async () => {},
    forms: [],
    limitForms: () => {},
    arrivedBytes: 0,
  }
}

async function exportSnapshot<Value>(
  { host, store }: TransferOf,
  id: SnapshotId,
  work: (snapshot: PortableSnapshot) => Promise<Value>,
): Promise<Value> {
  await store.sums.settled(id)
  const manifest = await store.getUsable(id)
  // Links: the snapshot may be deleted meanwhile. The next server removes them, should this one end first.
  const sending = savedPaths(join(host.layout.snapshotsDir, `.sending-${newSnapshotId()}`))
  try {
    await mkdir(sending.dir, { mode: 0o700 })
    const parts: PortablePart[] = []
    for (const { key, path } of await listFiles(host, manifest)) {
      const held = join(sending.dir, String(parts.length))
      const isLinked = await link(path, held).then(
        () => true,
        (error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') throw new DormouseError('not_found', `There is no snapshot ${id}.`)
          // A template on another file system.
          return false
        },
      )
      const { size: sizeBytes } = await stat(path)
      const read = () => readExtents(isLinked ? held : path)
      parts.push({ kind: 'file', key, sizeBytes, isReadWhole: true, read })
    }
    return await work({ needs: await describeMachines(host), parts })
  } finally {
    await rm(sending.dir, { recursive: true, force: true })
  }
}

interface NamedFile {
  readonly key: string
  readonly path: string
}

async function listFiles(host: MicrovmHost, { id, base }: Manifest): Promise<NamedFile[]> {
  const paths = host.layout.snapshot(id)
  const own = [
    { name: 'manifest.json', path: paths.manifest },
    { name: 'state', path: paths.state },
    { name: 'memory.map', path: paths.map },
    ...(await readdir(paths.volumes).catch(() => [])).map((name) => ({
      ...{ name: `volumes/${name}`, path: join(paths.volumes, name) },
    })),
  ].filter(({ path }) => existsSync(path))
  const disks = disksOf(base).map(async (name) => {
    const path = host.diskFile(paths.disks, base, name)
    return { key: await diskKey(base, name, path), path }
  })
  return [
    ...own.map(({ name, path }) => ({ key: `machine/${id}/${name}`, path })),
    ...(await Promise.all(disks)),
    ...base.memory.map((name) => ({
      key: `machine/memory/${name}`,
      path: host.memoryFile(paths.memory, base, name),
    })),
  ]
}

/** Each host builds a root disk and a disk of tools: those of the same name have the same files in other places. */
async function diskKey(base: Base, name: string, path: string): Promise<string> {
  const isBuilt = name === base.rootDisk || name === base.toolsDisk
  if (!isBuilt) return `machine/disks/${name}`
  const { mtimeNs } = await stat(path, { bigint: true })
  return `machine/disks/${name}/${mtimeNs}`
}

/** What the snapshot has of its own, and what it shares, by `disks/NAME` and `memory/NAME`. */
interface Arriving {
  readonly own: ReadonlyMap<string, SparseFile>
  readonly shared: ReadonlyMap<string, { key: string; file: SparseFile; modifiedNs: bigint | undefined }>
}

async function importSnapshot(of: TransferOf, id: SnapshotId, parts: readonly ArrivingPart[]): Promise<void> {
  const final = of.host.layout.snapshot(id)
  if (existsSync(final.manifest)) return
  const work = savedPaths(join(of.host.layout.snapshotsDir, `.taking-${newSnapshotId()}`))
  const arriving = sortParts(id, parts)
  if (!arriving.own.has('manifest.json')) throw damaged('the depot has nothing of it')
  await of.arrived.use(async () => {
    try {
      const directories = [work.dir, work.disks, work.memory, work.volumes]
      for (const path of directories) await mkdir(path, { mode: 0o700 })
      for (const [name, file] of arriving.own)
        await fetchFile(join(work.dir, name), file, name === 'memory.map' ? 0o644 : 0o600)
      const manifest = await readManifest(work.manifest, id)
      if (manifest.id !== id) throw damaged('the depot has another snapshot under its name')
      const problem = problemHere(of.host, manifest.base)
      if (problem !== undefined) throw damaged(problem)
      await putShared(of, { work, base: manifest.base, arriving })
      for (const path of directories.reverse()) await syncDirectory(path)
      await rename(work.dir, final.dir)
      await syncDirectory(of.host.layout.snapshotsDir)
    } catch (error) {
      await rm(work.dir, { recursive: true, force: true })
      throw explainFullDisk(error)
    }
  })
}

function sortParts(id: SnapshotId, parts: readonly ArrivingPart[]): Arriving {
  const own = new Map<string, SparseFile>()
  const shared = new Map<string, { key: string; file: SparseFile; modifiedNs: bigint | undefined }>()
  for (const part of parts) {
    if (part.kind !== 'file') throw damaged('the depot has another kind of snapshot under its name')
    const { key, file } = part
    const mine = OWN.exec(key)?.groups
    if (mine?.['id'] === id && mine['name'] !== undefined) own.set(mine['name'], file)
    const { kind, name, modifiedNs } = SHARED.exec(key)?.groups ?? {}
    if (kind !== undefined && mine === undefined)
      shared.set(`${kind}/${name}`, {
        key,
        file,
        modifiedNs: modifiedNs === undefined ? undefined : BigInt(modifiedNs),
      })
  }
  return { own, shared }
}

async function putShared(
  { host, arrived }: TransferOf,
  { work, base, arriving }: { work: SavedPaths; base: Base; arriving: Arriving },
): Promise<void> {
  const wanted = [
    ...disksOf(base).map((name) => ({ place: `disks/${name}`, here: host.diskFile(work.disks, base, name) })),
    ...base.memory.map((name) => ({
      place: `memory/${name}`,
      here: host.memoryFile(work.memory, base, name),
    })),
  ]
  for (const { place, here } of wanted) {
    const part = arriving.shared.get(place)
    if (part === undefined) throw damaged(`${place} is missing`)
    const path = join(work.dir, place)
    if (!(await isThere(here, part.modifiedNs))) await arrived.put(part, path)
    // Those of this host stay where they are: its template may be on another file system.
    else if (part.modifiedNs === undefined) await link(here, path).catch(() => {})
  }
}

/** Whether this host has the file with its template. */
async function isThere(path: string, modifiedNs: bigint | undefined): Promise<boolean> {
  const found = await stat(path, { bigint: true }).catch(() => undefined)
  return found !== undefined && (modifiedNs === undefined || found.mtimeNs === modifiedNs)
}
