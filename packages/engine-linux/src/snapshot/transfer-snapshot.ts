import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { DormouseError, isLayerId, type LayerId, type SnapshotId } from '@dormouse/contracts'
import type { ArrivingPart, PortablePart, PortableSnapshot, SnapshotTransfer } from '@dormouse/engine'
import type { SnapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { syncDirectory, syncFileSystem } from '../host/sync-files.ts'
import { type Manifest, readManifest } from '../storage/manifest.ts'
import { publishSnapshot, UNFINISHED } from '../storage/publish-snapshot.ts'
import { whileReading } from '../storage/snapshot-readers.ts'
import { damaged, unusable } from '../storage/verify-snapshot.ts'
import { abilitiesOf, needsOf, problemOf } from './portable-needs.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** Holes, extended attributes (whiteouts, capabilities, seals), owners by number, times to the nanosecond. */
const TAR = [
  'tar',
  '--format=posix',
  '--numeric-owner',
  '--xattrs',
  '--xattrs-include=*',
  '--sparse',
] as const
const PACK = ['--sort=name', '--pax-option=delete=atime,delete=ctime', '--create', '--file=-'] as const
/** The exit code of tar when it warned that files were not steady. */
const FILES_DIFFER = 1
/**
 * tar compares the time of the last change, which a new hard link sets: each wake links the memory files. Their content
 * never changes, and a host that unpacks them compares checksums before a wake.
 */
const ONLY_CHANGED = /^(?:tar: .*: file changed as we read it\n)+$/
const UNPACK = [
  '--extract',
  '--file=-',
  '--same-owner',
  '--same-permissions',
  '--delay-directory-restore',
] as const
const DIRECTORY = 'snapshot'
const ERROR_MAX_CHARACTERS = 500

/** Snapshots that travel between hosts as archives: one of the directory, one of each memory file and each layer. */
export function snapshotTransfer(engine: SnapshotEngine): SnapshotTransfer {
  return {
    problemOf,
    abilities: () => abilitiesOf(engine),
    export: (id, work) => exportSnapshot(engine, id, work),
    import: (id, parts) => importSnapshot(engine, id, parts),
  }
}

async function exportSnapshot<Value>(
  engine: SnapshotEngine,
  id: SnapshotId,
  work: (snapshot: PortableSnapshot) => Promise<Value>,
): Promise<Value> {
  await engine.host.unsynced.require(id)
  const { dir } = engine.host.layout.snapshot(id)
  return whileReading(dir, async () => {
    const { paths, manifest } = await engine.store.get(id)
    return work({ needs: await needsOf(engine, manifest), parts: listParts(engine, paths, manifest) })
  })
}

function listParts({ host }: SnapshotEngine, paths: SnapshotPaths, manifest: Manifest): PortablePart[] {
  const inDirectory = (path: string) => path.slice(paths.dir.length + 1)
  const files = [paths.manifest, paths.images, paths.carried, paths.touched, paths.ahead]
  const present = files.filter((path) => existsSync(path)).map(inDirectory)
  const generation = manifest.generation === undefined ? '' : `-${manifest.generation}`
  const memory = manifest.kind === 'files' ? [] : manifest.memory
  return [
    {
      key: `${DIRECTORY}-${manifest.id}${generation}`,
      read: () => pack(paths.dir, present),
    },
    ...memory.map(({ name, checksum, sizeBytes, mtimeNs }) => ({
      key: `memory-${name}-${checksum}-${sizeBytes}-${mtimeNs}`,
      read: () => pack(paths.memory, [name]),
    })),
    ...manifest.layers.map((layer) => ({ key: layer, read: () => pack(host.layout.layer(layer), ['.']) })),
  ]
}

async function importSnapshot(
  engine: SnapshotEngine,
  id: SnapshotId,
  parts: readonly ArrivingPart[],
): Promise<void> {
  const { layout } = engine.host
  const final = layout.snapshot(id)
  if (existsSync(final.manifest)) return
  const work = join(layout.snapshotsDir, `${UNFINISHED}${id}`)
  // Layers have no user until the snapshot has its name.
  await engine.afterCollecting(async () => {
    await removeTree(work)
    await mkdir(join(work, 'snapshot'), { recursive: true, mode: 0o700 })
    try {
      const manifest = await unpackAll(engine, { id, work, parts })
      await syncFileSystem(work)
      for (const layer of manifest.layers) {
        const arrived = join(work, layer)
        if (existsSync(arrived)) await rename(arrived, join(layout.layersDir, layer))
      }
      await syncDirectory(layout.layersDir)
      await publishSnapshot(join(work, 'snapshot'), final.dir)
    } finally {
      await removeTree(work)
    }
  })
}

async function unpackAll(
  engine: SnapshotEngine,
  { id, work, parts }: { id: SnapshotId; work: string; parts: readonly ArrivingPart[] },
): Promise<Manifest> {
  const { layout } = engine.host
  const [directory, ...others] = parts
  if (directory === undefined) throw damaged('the depot has nothing of it')
  const dir = join(work, 'snapshot')
  await unpack(dir, directory)
  const manifest = await readManifest(join(dir, 'manifest.json'))
  if (manifest.id !== id) throw unusable('the depot has another snapshot under its name')
  const problem = problemOf(await needsOf(engine, manifest), await abilitiesOf(engine))
  if (problem !== undefined) throw unusable(`${problem} (this host)`)
  const generation = manifest.generation === undefined ? dir : join(dir, `generation-${manifest.generation}`)
  const memory = join(generation, 'memory')
  if (manifest.kind === 'full') await mkdir(memory, { recursive: true, mode: 0o700 })
  for (const part of others) {
    if (!isLayerId(part.key)) await unpack(memory, part)
    // A layer that is here is the same one: its name is never used again.
    else if (!existsSync(layout.layer(part.key))) await unpackLayer(join(work, part.key), part)
  }
  await requireComplete({ layout, work, memory }, manifest)
  return manifest
}

async function unpackLayer(root: string, part: ArrivingPart): Promise<void> {
  await mkdir(root, { mode: 0o755 })
  await unpack(root, part)
}

async function requireComplete(
  { layout, work, memory }: { layout: SnapshotEngine['host']['layout']; work: string; memory: string },
  manifest: Manifest,
): Promise<void> {
  const isThere = (layer: LayerId) => existsSync(join(work, layer)) || existsSync(layout.layer(layer))
  const missing = manifest.layers.find((layer) => !isThere(layer))
  if (missing !== undefined) throw damaged(`its file layer ${missing} is missing`)
  if (manifest.kind === 'files') return
  const files = new Set(await readdir(memory))
  const absent = manifest.memory.find(({ name }) => !files.has(name))
  if (absent !== undefined) throw damaged(`the memory file ${absent.name} is missing`)
}

/** Its stream fails when tar does. */
function pack(directory: string, names: readonly string[]): Readable {
  const child = start([...TAR, ...PACK, '--directory', directory, '--', ...names])
  const { stdout } = child
  if (stdout === null) throw new DormouseError('internal', 'A program has no output.')
  child.stdin?.end()
  const ended = untilEnded(child, 'packing')
  return readableUntil(stdout, ended)
}

function readableUntil(stdout: Readable, ended: Promise<void>): Readable {
  ended.catch(() => {})
  async function* read(): AsyncGenerator<Buffer> {
    for await (const piece of stdout) yield piece as Buffer
    await ended
  }
  return Readable.from(read(), { objectMode: false })
}

async function unpack(directory: string, { content }: ArrivingPart): Promise<void> {
  const child = start([...TAR, ...UNPACK, '--directory', directory])
  const ended = untilEnded(child, 'unpacking')
  ended.catch(() => {})
  child.stdout?.resume()
  const { stdin } = child
  if (stdin === null) throw new DormouseError('internal', 'A program has no input.')
  try {
    await pipeline(content(), stdin)
  } catch (error) {
    child.kill('SIGKILL')
    // When tar has ended first, its own words say more.
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') await ended
    throw error
  }
  await ended
}

function start([program, ...args]: readonly string[]): ChildProcess {
  // The kernel ends the program with this server.
  return spawn('setpriv', ['--pdeathsig', 'KILL', '--', program ?? '', ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
}

async function untilEnded(child: ChildProcess, what: string): Promise<void> {
  let said = ''
  child.stderr?.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(0, ERROR_MAX_CHARACTERS)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code === 0 || (code === FILES_DIFFER && ONLY_CHANGED.test(said))) return
  throw new DormouseError('setup_failed', `${what} a snapshot: tar ended with exit code ${code}`, {
    details: { output: said },
  })
}
