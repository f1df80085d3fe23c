import { createHash } from 'node:crypto'
import { chmod, chown, link, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DormouseError, type LayerId, newLayerId, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { type SnapshotPaths, snapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import type { BurrowHost } from '../burrow/start-burrow.ts'
import { recordTaking, undoTaking } from '../burrow/taking.ts'
import type { Criu } from '../criu/find-criu.ts'
import { KDAT_HOST } from '../criu/kdat.ts'
import { runCriu } from '../criu/run-criu.ts'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import { syncDirectory, syncFileSystem, writeDurably } from '../host/sync-files.ts'
import { readClocks } from '../image/clocks.ts'
import { mapMemory } from '../image/map-memory.ts'
import { mendPipes } from '../image/pipes.ts'
import { mendTimers } from '../image/timers.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { listCarried } from './carry-open-files.ts'
import { readFingerprint } from './fingerprint.ts'
import { encodeManifest, type Manifest, SNAPSHOT_FORMAT_VERSION } from './manifest.ts'
import { explainDumpFailure } from './refusal.ts'
import { refuseLoss } from './refuse-loss.ts'

/** Prefix of directories that are not snapshots yet. */
export const UNFINISHED = '.taking-'
/** The agent is the root of the tree that is saved; its pid never changes. */
const AGENT_PID = 2
/** Files that are open but deleted are saved with their content up to this size. */
const GHOST_LIMIT_BYTES = 1024 ** 3
/**
 * Where CRIU looks for the paths of inotify watches, of which the kernel tells no more than the inode. In the order of how
 * likely a program watches something there; it looks only when there is a watch, and stops at the first match.
 */
const WATCHED_PATHS = ['/root', '/home', '/tmp', '/run', '/srv', '/mnt', '/opt', '/etc', '/var', '/usr']

export interface TakeSnapshot {
  readonly burrow: LinuxBurrow
  readonly criu: Criu
  /** The directory that the burrow sees as /.dormouse. */
  readonly toolsDir: string
  /** Where the finished snapshot goes; the engine's own snapshots when not given. */
  readonly into?: string
  readonly layersDir?: string
}

/**
 * Saves a burrow and ends it. The processes stay stopped until all of it is on disk; only then do they go. If any step fails
 * they go on where they were, what was written is removed, and the error says why.
 */
export async function takeSnapshot(host: BurrowHost, take: TakeSnapshot): Promise<Manifest> {
  const { burrow, criu, toolsDir, into, layersDir } = take
  const id = newSnapshotId()
  const final = into === undefined ? host.layout.snapshot(id) : snapshotPaths(into)
  const work = snapshotPaths(join(dirname(final.dir), `${UNFINISHED}${id}`))
  const layer = { id: newLayerId(), path: '' }
  layer.path = join(layersDir ?? host.layout.layersDir, layer.id)
  let areStopped = false
  await burrow.quiesce()
  try {
    await recordTaking(burrow.paths, { snapshotId: id, final: final.dir, work: work.dir, layer: layer.path })
    await mkdir(join(work.dir, 'raw'), { recursive: true, mode: 0o700 })
    await dump(burrow, criu, join(work.dir, 'raw'))
    areStopped = true
    await refuseLoss(join(work.dir, 'raw'), await burrow.pids())
    const hasFiles = await freezeFiles(burrow, layer.path)
    const layers: LayerId[] = [...(hasFiles ? [layer.id] : []), ...burrow.record.layers]
    if (hasFiles) await listCarried({ rawDir: join(work.dir, 'raw'), layer: layer.path, list: work.carried })
    const manifest = await finishImages({ id, burrow, criu, toolsDir, layers, work })
    await syncFileSystem(work.dir)
    await writeDurably(work.manifest, encodeManifest(manifest))
    await rename(work.dir, final.dir)
    await syncDirectory(dirname(final.dir))
    await burrow.endAfterSnapshot(id)
    return manifest
  } catch (error) {
    const finished = await undoTaking(burrow.paths)
    if (finished === undefined) await burrow.goOn({ areStopped })
    throw noSpace(error)
  }
}

async function dump(burrow: LinuxBurrow, criu: Criu, raw: string): Promise<void> {
  const { exitCode, output } = await runCriu({
    criu,
    firstPid: burrow.first.pid,
    as: 'host',
    imagesDir: raw,
    kdatDir: KDAT_HOST,
    action: [
      'dump',
      ...['--tree', String(AGENT_PID)],
      '--leave-stopped',
      ...['--network-lock', 'skip'],
      '--tcp-established',
      '--manage-cgroups=ignore',
      '--file-locks',
      '--link-remap',
      ...['--ghost-limit', String(GHOST_LIMIT_BYTES)],
      ...WATCHED_PATHS.flatMap((path) => ['--irmap-scan-path', path]),
    ],
  })
  if (exitCode !== 0) throw explainDumpFailure(output)
}

/** The upper directory becomes a layer: a rename. False when there was nothing in it. */
async function freezeFiles(burrow: LinuxBurrow, layer: string): Promise<boolean> {
  if ((await readdir(burrow.paths.upper)).length === 0) return false
  await mkdir(dirname(layer), { recursive: true, mode: 0o700 })
  await rename(burrow.paths.upper, layer)
  return true
}

interface FinishImages {
  readonly id: SnapshotId
  readonly burrow: LinuxBurrow
  readonly criu: Criu
  readonly toolsDir: string
  readonly layers: readonly LayerId[]
  readonly work: SnapshotPaths
}

async function finishImages({ id, burrow, criu, toolsDir, layers, work }: FinishImages): Promise<Manifest> {
  const raw = join(work.dir, 'raw')
  await mendTimers(raw)
  await mendPipes(raw)
  await mkdir(work.images, { mode: 0o755 })
  await mkdir(work.memory, { mode: 0o755 })
  const mapped = await mapMemory({
    rawDir: raw,
    outDir: work.images,
    memoryDir: work.memory,
    memoryId: id,
    guard: { hostPath: join(toolsDir, GUARD_IN_TOOLS) },
  })
  for (const { name } of mapped.memoryFiles) {
    // Root inside owns its memory; other users inside must not read what it had there.
    await chown(join(work.memory, name), UID_BASE, UID_BASE)
  }
  for (const name of mapped.referencedMemoryFiles)
    await link(join(burrow.paths.memory, name), join(work.memory, name))
  await rm(raw, { recursive: true })
  const images = await describeImages(work.images)
  const memory = await describeMemory(work.memory)
  const { record } = burrow
  return {
    formatVersion: SNAPSHOT_FORMAT_VERSION,
    id,
    kind: 'full',
    sandboxId: burrow.sandboxId,
    ...(record.parent !== undefined && { parent: record.parent }),
    createdAt: new Date().toISOString(),
    template: { name: record.template, hash: record.templateHash },
    layers: [...layers],
    tools: record.tools,
    limits: record.limits,
    clocks: await readClocks(work.images),
    criuVersion: criu.version,
    fingerprint: await readFingerprint(),
    images,
    memory: memory.map(({ name, sizeBytes }) => ({ name, sizeBytes })),
    bytes: {
      images: images.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      memory: memory.reduce((sum, { allocatedBytes }) => sum + allocatedBytes, 0),
    },
  }
}

async function describeImages(directory: string): Promise<Manifest['images']> {
  const names = (await readdir(directory)).sort()
  return Promise.all(
    names.map(async (name) => {
      const path = join(directory, name)
      // Restoring happens without privileges over the host; the directory above keeps everybody else out.
      await chmod(path, 0o644)
      const content = await readFile(path)
      return {
        name,
        sizeBytes: content.byteLength,
        sha256: createHash('sha256').update(content).digest('hex'),
      }
    }),
  )
}

async function describeMemory(directory: string) {
  const names = (await readdir(directory)).sort()
  return Promise.all(
    names.map(async (name) => {
      const { size, blocks } = await stat(join(directory, name))
      return { name, sizeBytes: size, allocatedBytes: blocks * 512 }
    }),
  )
}

function noSpace(error: unknown): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error
  return new DormouseError('no_space', 'The disk is full; the sandbox runs on.', { cause: error })
}
