import { existsSync } from 'node:fs'
import { link, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import type { PortablePart, PortableSnapshot, SnapshotTransfer } from '@dormouse/engine'
import { readExtents } from '@dormouse/engine-linux/for-engines'
import { savedPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { type Base, disksOf, type Manifest } from '../storage/manifest.ts'
import { importSnapshot, memoryKey, resumeArrival, type TransferOf } from './import-snapshot.ts'
import { describeMachines, machineProblem } from './machine-needs.ts'

/** Snapshots of machines that travel between hosts: one part for each file. Memory files arrive behind the wake. */
export function machineTransfer(of: TransferOf): SnapshotTransfer {
  return {
    problemOf: machineProblem,
    problemOfTemplate: (_name, abilities) =>
      abilities === undefined ? machineProblem({}, undefined) : undefined,
    abilities: () => describeMachines(of.host),
    export: (id, work) => exportSnapshot(of, id, work),
    import: (id, parts, origin) => importSnapshot(of, { id, parts, origin }),
    interrupted: () => of.host.arrivals.interrupted(),
    resume: (id, parts) => resumeArrival(of, id, parts),
    untilArrived: (id) => of.host.arrivals.require(id),
    forms: [],
    limitForms: () => {},
    get arrivedBytes() {
      return of.host.arrivals.arrivedBytes
    },
  }
}

async function exportSnapshot<Value>(
  { host, store }: TransferOf,
  id: SnapshotId,
  work: (snapshot: PortableSnapshot) => Promise<Value>,
): Promise<Value> {
  await store.sums.settled(id)
  await host.arrivals.require(id)
  const manifest = await store.getUsable(id)
  // Links: the snapshot may be deleted meanwhile. The next server removes them, should this one end first.
  const sending = savedPaths(join(host.layout.snapshotsDir, `.sending-${newSnapshotId()}`))
  try {
    await mkdir(sending.dir, { mode: 0o700 })
    const parts: PortablePart[] = []
    for (const { key, path, isReadWhole } of await listFiles(host, manifest)) {
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
      parts.push({ kind: 'file', key, sizeBytes, isReadWhole, read })
    }
    return await work({ needs: await describeMachines(host), parts })
  } finally {
    await rm(sending.dir, { recursive: true, force: true })
  }
}

interface NamedFile {
  readonly key: string
  readonly path: string
  readonly isReadWhole: boolean
}

async function listFiles(host: MicrovmHost, { id, base }: Manifest): Promise<NamedFile[]> {
  const paths = host.layout.snapshot(id)
  const own = [
    { name: 'manifest.json', path: paths.manifest },
    { name: 'state', path: paths.state },
    { name: 'memory.map', path: paths.map },
    { name: 'touched', path: paths.touched },
    ...(await readdir(paths.volumes).catch(() => [])).map((name) => ({
      ...{ name: `volumes/${name}`, path: join(paths.volumes, name) },
    })),
  ].filter(({ path }) => existsSync(path))
  const disks = disksOf(base).map(async (name) => {
    const path = host.diskFile(paths.disks, base, name)
    return { key: await diskKey(base, name, path), path, isReadWhole: true }
  })
  return [
    ...own.map(({ name, path }) => ({ key: `machine/${id}/${name}`, path, isReadWhole: true })),
    ...(await Promise.all(disks)),
    ...base.memory.map((name) => ({
      key: memoryKey(name),
      path: host.memoryFile(paths.memory, base, name),
      isReadWhole: false,
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
