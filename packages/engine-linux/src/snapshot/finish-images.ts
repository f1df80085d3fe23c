import { chown, link, mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { allOf } from '@dormouse/async'
import type { LayerId, SnapshotId } from '@dormouse/contracts'
import type { ParkedConnections, ParkedEnd } from '@dormouse/engine'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import type { SnapshotPaths } from '../host/layout.ts'
import { listCarried } from '../image/carry-open-files.ts'
import { readClocks } from '../image/clocks.ts'
import type { PageWorker } from '../image/page-worker.ts'
import type { DumpImages } from '../image-thread/dump-images.ts'
import { type InsideEnd, joinEnds, keyOf } from '../network/connection-end.ts'
import type { HeldSleep } from '../process/hold-sleep.ts'
import { readFingerprint } from '../storage/fingerprint.ts'
import { type FullManifest, SNAPSHOT_FORMAT_VERSION } from '../storage/manifest.ts'
import { UID_BASE } from '../template/shifted-root.ts'
import { keepLibraries } from '../volume/library-copies.ts'
import { keepTouched } from './read-ahead.ts'
import { earliestDeadline, type FoundWaits, wallTimeOf } from './watch-timers.ts'

export interface FinishImages {
  readonly id: SnapshotId
  readonly burrow: LinuxBurrow
  readonly criuVersion: string
  /** The directory that the burrow sees as /.dormouse. */
  readonly toolsDir: string
  readonly layers: readonly LayerId[]
  /** The layer that the burrow's own files have become; undefined when it had none. */
  readonly ownLayer: string | undefined
  readonly volumeFiles: FullManifest['volumeFiles']
  readonly volumeLocks: FullManifest['volumeLocks']
  readonly volumesDir: string
  /** The dump as CRIU wrote it. */
  readonly raw: string
  readonly work: SnapshotPaths
  readonly worker: PageWorker
  /** The images of the dump, already read. */
  readonly images: DumpImages
  /** When the processes were frozen. */
  readonly dumpedAtMs: number
  /** What their threads wait for; undefined when nothing has to wake the sandbox. */
  readonly waits: FoundWaits | undefined
  readonly sleeps: readonly HeldSleep[]
  /** The server's ends of its connections to the outside. */
  readonly parkedEnds: readonly ParkedEnd[]
}

export interface FinishedImages {
  readonly manifest: FullManifest
  readonly connections: ParkedConnections
}

/** Turns a dump into the files of a snapshot, and describes them in a manifest. Nothing is synced. */
export async function finishImages(finish: FinishImages): Promise<FinishedImages> {
  const { id, burrow, work, worker } = finish
  const { record } = burrow
  const { memory, hasCarried, isOutside, insideEnds } = await makeFiles(finish)
  const images = await worker.seal(work.images)
  const clocks = await readClocks(work.images)
  const createdAtMs = finish.waits === undefined ? finish.dumpedAtMs : wallTimeOf(clocks, finish.waits)
  const deadline = await findDeadline(finish, createdAtMs)
  const manifest: FullManifest = {
    formatVersion: SNAPSHOT_FORMAT_VERSION,
    id,
    kind: 'full',
    sandboxId: burrow.sandboxId,
    ...(record.parent !== undefined && { parent: record.parent }),
    createdAt: new Date(createdAtMs).toISOString(),
    template: { name: record.template, hash: record.templateHash },
    layers: [...finish.layers],
    tools: record.tools,
    limits: record.limits,
    volumes: record.volumes,
    ...(record.image !== undefined && { image: record.image }),
    volumeFiles: finish.volumeFiles,
    volumeLocks: finish.volumeLocks,
    clocks,
    criuVersion: finish.criuVersion,
    fingerprint: await readFingerprint(),
    images,
    memory,
    ...(isOutside && { outside: true as const }),
    showsLimits: true,
    ...(hasCarried && { carried: (await worker.sum([work.carried]))[0] }),
    ...(deadline !== undefined && { deadline: deadline.toISOString() }),
    bytes: {
      images: images.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      memory: await allocatedBytes(memory.map(({ name }) => join(work.memory, name))),
    },
  }
  return { manifest, connections: joinConnections(finish.parkedEnds, insideEnds) }
}

/** A parked end without an inside end is left out: its program has closed the connection. */
function joinConnections(parked: readonly ParkedEnd[], inside: readonly InsideEnd[]): ParkedConnections {
  const byKey = new Map(inside.map((end) => [end.key, end]))
  return parked.flatMap((end) => {
    const other = byKey.get(keyOf(end))
    return (other && joinEnds(end, other)) ?? []
  })
}

async function findDeadline({ waits, images }: FinishImages, readAtMs: number): Promise<Date | undefined> {
  if (waits === undefined) return undefined
  return earliestDeadline(waits, { timers: await images.findTimers(), readAtMs })
}

/** Rewrites the images so that memory is mapped, and makes the memory files and the list of carried files. */
async function makeFiles(finish: FinishImages) {
  const { id, burrow, raw, work, worker, ownLayer: layer, volumeFiles, volumesDir } = finish
  const { isOutside, insideEnds, hasWritten } = await finish.images.mend({
    sleeps: finish.sleeps,
    keptKeys: finish.parkedEnds.map(keyOf),
  })
  await mkdir(work.images, { mode: 0o755 })
  await mkdir(work.memory, { mode: 0o755 })
  const guard = { hostPath: join(finish.toolsDir, GUARD_IN_TOOLS) }
  const into = {
    ...{ outDir: work.images, memoryDir: work.memory, memoryId: id, guard },
    basesDir: burrow.paths.memory,
  }
  const [hasCarried, { memoryFiles, referencedMemoryFiles }] = await allOf([
    hasWritten && layer !== undefined
      ? listCarried({ rawDir: raw, layer, list: work.carried })
      : Promise.resolve(false),
    finish.images.map(into, worker),
  ])
  for (const { name } of memoryFiles) {
    // Root inside owns its memory; other users inside must not read it.
    await chown(join(work.memory, name), UID_BASE, UID_BASE)
  }
  for (const name of referencedMemoryFiles)
    await link(join(burrow.paths.memory, name), join(work.memory, name))
  const referenced = referencedMemoryFiles.map((name) => join(work.memory, name))
  const libraries = await keepLibraries({
    ...{ volumeFiles, volumesDir, mounts: burrow.record.volumes },
    ...{ from: burrow.paths.memory, into: work.memory },
  })
  await keepTouched(burrow.paths, work)
  const memory = [...memoryFiles, ...(await worker.recall([...referenced, ...libraries]))]
  return { memory, hasCarried, isOutside, insideEnds }
}

async function allocatedBytes(paths: readonly string[]): Promise<number> {
  const STAT_BLOCK_BYTES = 512
  const stats = await Promise.all(paths.map((path) => stat(path)))
  return stats.reduce((sum, { blocks }) => sum + blocks * STAT_BLOCK_BYTES, 0)
}
