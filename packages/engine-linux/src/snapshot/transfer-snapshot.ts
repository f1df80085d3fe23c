import { existsSync } from 'node:fs'
import { mkdir, rename, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { allOf, settleAll } from '@dormouse/async'
import { isLayerId, type LayerId, type SnapshotId } from '@dormouse/contracts'
import type {
  ArrivingPart,
  PortablePart,
  PortableSnapshot,
  SnapshotNeeds,
  SnapshotTransfer,
  SparseFile,
} from '@dormouse/engine'
import type { BeginArrival } from '../arrival/arrivals.ts'
import { isArriving } from '../arrival/arriving-files.ts'
import type { Layout, SnapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { syncDirectory } from '../host/sync-files.ts'
import { PageWorker } from '../image/page-worker.ts'
import { generationPaths } from '../storage/generation.ts'
import { encodeManifest, type FullManifest, type Manifest, readManifest } from '../storage/manifest.ts'
import { publishSnapshot, UNFINISHED } from '../storage/publish-snapshot.ts'
import { whileReading } from '../storage/snapshot-readers.ts'
import { damaged, unusable } from '../storage/verify-snapshot.ts'
import { getTemplateBuild } from '../template/template-store.ts'
import { fetchedBases } from './fetched-bases.ts'
import { finishMemory } from './finish-memory.ts'
import { linkTemplateMemory } from './link-template-memory.ts'
import { asItTravels } from './plain-pages.ts'
import { abilitiesOf, localTemplateOf, needsOf, problemOf, problemOfTemplate } from './portable-needs.ts'
import { makeReadAhead, readAheadList } from './read-ahead.ts'
import { readExtents } from './read-extents.ts'
import type { FoundSnapshot, SnapshotEngine } from './snapshot-engine.ts'
import { baseTransfer } from './transfer-bases.ts'
import { type ArrivingArchive, pack, unpack } from './travel-archive.ts'

const DIRECTORY = 'snapshot'
/** Without it a burrow cannot wait for pages that are missing, so nothing may be missing. */
const FUSE = '/dev/fuse'

/** Pages are stored as what differs from memory files: see image/fold-images.ts. */
const FOLDED = 'folded'

/** Starting a program takes longer than unpacking a small layer, and a sandbox has a handful of these. */
const LAYERS_AT_ONCE = 4

/** Snapshots that travel between hosts as archives: one of the directory, one of each memory file and each layer. */
export function snapshotTransfer(engine: SnapshotEngine): SnapshotTransfer {
  return {
    problemOf,
    problemOfTemplate,
    abilities: () => abilitiesOf(engine),
    export: (id, work) => exportSnapshot(engine, id, work),
    import: (id, parts, origin, needs) => importSnapshot(engine, { id, parts, origin, needs }),
    bases: { ...baseTransfer(engine), fetched: fetchedBases(engine) },
    interrupted: () => engine.host.arrivals.interrupted(),
    resume: (id, parts) => resumeArrival(engine, id, parts),
    untilArrived: (id) => engine.host.arrivals.require(id),
    forms: [FOLDED],
    limitForms: (isUsable) => {
      engine.mayFold = () => isUsable(FOLDED)
    },
    get arrivedBytes() {
      return engine.host.arrivals.arrivedBytes
    },
  }
}

async function exportSnapshot<Value>(
  engine: SnapshotEngine,
  id: SnapshotId,
  work: (snapshot: PortableSnapshot) => Promise<Value>,
): Promise<Value> {
  await engine.host.unsynced.require(id)
  await engine.host.arrivals.require(id)
  const { dir } = engine.host.layout.snapshot(id)
  return whileReading(dir, async () => {
    const { paths, manifest } = await engine.store.get(id)
    if (!existsSync(paths.ahead)) await makeReadAhead(paths, engine.host.imageThreads).catch(() => {})
    const needs = await needsOf(engine, manifest)
    return asItTravels(engine, { paths, manifest }, (plain) =>
      work({ needs, parts: listParts(engine, { paths, manifest }, plain) }),
    )
  })
}

function listParts(
  { host }: SnapshotEngine,
  { paths, manifest }: FoundSnapshot,
  plain: SnapshotPaths,
): PortablePart[] {
  const inDirectory = (path: string) => path.slice(plain.dir.length + 1)
  const files = [plain.manifest, plain.images, plain.carried, plain.touched, plain.ahead]
  const present = files.filter((path) => existsSync(path)).map(inDirectory)
  const version = manifest.generation === undefined ? '' : `-${manifest.generation}`
  const form = plain.dir === host.layout.snapshot(manifest.id).dir ? '' : '-plain'
  const memory = manifest.kind === 'files' ? [] : manifest.memory
  return [
    {
      kind: 'archive',
      key: `${DIRECTORY}-${manifest.id}${version}${form}`,
      read: () => pack(plain.dir, present),
    },
    ...memory.map((file): PortablePart => {
      const { sizeBytes } = file
      const read = () => readExtents(join(paths.memory, file.name))
      return { kind: 'file', key: memoryKey(file), sizeBytes, isReadWhole: false, read }
    }),
    ...manifest.layers.map((layer): PortablePart => {
      return { kind: 'archive', key: layer, read: () => pack(host.layout.layer(layer), ['.']) }
    }),
  ]
}

function memoryKey({ name, checksum, sizeBytes, mtimeNs }: FullManifest['memory'][number]): string {
  return `pages-${name}-${checksum}-${sizeBytes}-${mtimeNs}`
}

interface ImportSnapshot {
  readonly id: SnapshotId
  readonly parts: readonly ArrivingPart[]
  readonly origin: string
  readonly needs: SnapshotNeeds | undefined
}

async function importSnapshot(engine: SnapshotEngine, snapshot: ImportSnapshot): Promise<void> {
  const { id, parts, origin, needs } = snapshot
  const { layout, arrivals, imageThreads } = engine.host
  const final = layout.snapshot(id)
  // An import that failed after it had published the snapshot has not begun to fetch its memory.
  if (existsSync(final.manifest)) return await resumeArrival(engine, id, parts)
  const work = join(layout.snapshotsDir, `${UNFINISHED}${id}`)
  // Layers have no user until the snapshot has its name.
  await engine.afterCollecting(async () => {
    await removeTree(work)
    // One by one: with `recursive`, Node.js says ENOENT when the disk is full.
    await mkdir(work, { mode: 0o700 })
    await mkdir(join(work, 'snapshot'), { mode: 0o700 })
    try {
      const manifest = await unpackAll(engine, { id, work, parts, needs })
      const absent = await linkKnown(engine, join(work, 'snapshot'), manifest)
      const arriving = beginOf(join(work, 'snapshot'), absent, parts)
      const files = (arriving && (await arrivals.prepare(arriving, origin))) ?? []
      try {
        await publishArrived(engine, work, manifest)
        const begin = beginOf(final.dir, absent, parts)
        const paths = generationPaths(final.dir, manifest.generation)
        if (begin !== undefined) arrivals.start(begin, files, await readAheadList(paths, imageThreads))
      } catch (error) {
        for (const file of files) await file.close()
        throw error
      }
      if (!existsSync(FUSE)) await arrivals.require(id)
    } finally {
      // A wake does not wait until a program has removed an empty directory.
      await rmdir(work).catch(() => removeTree(work))
    }
  })
}

/** Gives the layers and the snapshot their names. All of it is on disk then, except memory that follows. */
async function publishArrived(
  { host: { layout } }: SnapshotEngine,
  work: string,
  manifest: Manifest,
): Promise<void> {
  await syncArrived(work, manifest)
  for (const layer of manifest.layers) {
    const arrived = join(work, layer)
    if (existsSync(arrived)) await rename(arrived, join(layout.layersDir, layer))
  }
  await syncDirectory(layout.layersDir)
  await publishSnapshot(join(work, 'snapshot'), layout.snapshot(manifest.id).dir)
}

/** Puts memory files in their place that this host has with the template. The others follow. */
async function linkKnown(engine: SnapshotEngine, dir: string, manifest: Manifest): Promise<Expected> {
  if (manifest.kind === 'files') return { manifest, files: [] }
  const { memory } = generationPaths(dir, manifest.generation)
  const template = await getTemplateBuild(engine.dataDir, manifest.template)
  const linked = await linkTemplateMemory(template, manifest.memory, memory)
  return { manifest, files: manifest.memory.filter(({ name }) => !linked.has(name)) }
}

/** A snapshot, and its memory files that are not here. */
interface Expected {
  readonly manifest: Manifest
  readonly files: FullManifest['memory']
}

/** Undefined when nothing of the snapshot follows later. */
function beginOf(
  dir: string,
  { manifest, files }: Expected,
  parts: readonly ArrivingPart[],
): BeginArrival | undefined {
  if (manifest.kind === 'files') return undefined
  const memory = new Map<string, SparseFile>()
  for (const file of files) {
    const part = parts.find(({ key }) => key === memoryKey(file))
    if (part?.kind === 'file') memory.set(file.name, part.file)
  }
  if (memory.size === 0) return undefined
  const { memory: memoryDir } = generationPaths(dir, manifest.generation)
  const arriving = files.filter(({ name }) => memory.has(name))
  return { id: manifest.id, dir, memoryDir, memory, finish: () => finishMemory(memoryDir, arriving) }
}

async function resumeArrival(
  { host, store }: SnapshotEngine,
  id: SnapshotId,
  parts: readonly ArrivingPart[],
): Promise<void> {
  const { paths, manifest } = await store.get(id)
  const { dir } = paths
  // The others came with the template.
  const files = manifest.kind === 'files' ? [] : manifest.memory.filter(({ name }) => isArriving(dir, name))
  const begin = beginOf(dir, { manifest, files }, parts)
  if (begin !== undefined) await host.arrivals.resume(begin, await readAheadList(paths, host.imageThreads))
}

/** Memory that follows later is synced when it is complete. */
async function syncArrived(work: string, manifest: Manifest): Promise<void> {
  await using worker = new PageWorker()
  const layers = manifest.layers.map((layer) => join(work, layer)).filter((layer) => existsSync(layer))
  await worker.sync([join(work, 'snapshot'), ...layers])
}

async function unpackAll(
  engine: SnapshotEngine,
  { id, work, parts, needs }: Omit<ImportSnapshot, 'origin'> & { work: string },
): Promise<Manifest> {
  const { layout } = engine.host
  const [directory, ...others] = parts
  if (directory?.kind !== 'archive') throw damaged('the depot has nothing of it')
  const dir = join(work, 'snapshot')
  // A layer that is here is the same one: its name is never used again.
  const absent = others.filter(
    (part): part is ArrivingArchive =>
      part.kind === 'archive' && isLayerId(part.key) && !existsSync(layout.layer(part.key)),
  )
  const unpackLayers = async () => {
    const jobs = absent.map((part) => () => unpackLayer(join(work, part.key), part))
    for (const result of await settleAll(jobs, LAYERS_AT_ONCE))
      if (result.status === 'rejected') throw result.reason
  }
  await allOf([unpack(dir, directory), unpackLayers()])
  const manifest = await readArrived(engine, join(dir, 'manifest.json'), needs)
  if (manifest.id !== id) throw unusable('the depot has another snapshot under its name')
  const problem = problemOf(await needsOf(engine, manifest), await abilitiesOf(engine))
  if (problem !== undefined) throw unusable(`${problem} (this host)`)
  const { memory } = generationPaths(dir, manifest.generation)
  if (manifest.kind === 'full') await mkdir(memory, { recursive: true, mode: 0o700 })
  requireComplete({ layout, work, parts }, manifest)
  return manifest
}

/** Hosts call a build of a template by the same hash when each has built it. Here the manifest names the one it needs. */
async function readArrived(
  { dataDir }: SnapshotEngine,
  path: string,
  needs: SnapshotNeeds | undefined,
): Promise<Manifest> {
  const manifest = await readManifest(path)
  const template = await localTemplateOf(dataDir, manifest.template, needs)
  if (template.hash === manifest.template.hash) return manifest
  const changed = { ...manifest, template }
  await writeFile(path, encodeManifest(changed), { mode: 0o600 })
  return changed
}

async function unpackLayer(root: string, part: ArrivingArchive): Promise<void> {
  await mkdir(root, { mode: 0o755 })
  await unpack(root, part)
}

function requireComplete(
  { layout, work, parts }: { layout: Layout; work: string; parts: readonly ArrivingPart[] },
  manifest: Manifest,
): void {
  const isThere = (layer: LayerId) => existsSync(join(work, layer)) || existsSync(layout.layer(layer))
  const missing = manifest.layers.find((layer) => !isThere(layer))
  if (missing !== undefined) throw damaged(`its file layer ${missing} is missing`)
  if (manifest.kind === 'files') return
  const keys = new Set(parts.map(({ key }) => key))
  const absent = manifest.memory.find((file) => !keys.has(memoryKey(file)))
  if (absent !== undefined) throw damaged(`the memory file ${absent.name} is missing`)
}
