import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { withTimeout } from '@dormouse/async'
import { type BurrowLimits, DormouseError, type SandboxId, type SnapshotId } from '@dormouse/contracts'
import type { ParkedConnections } from '@dormouse/engine'
import { ARRIVAL_TIMEOUT_MS, tooLate } from '../arrival/arrivals.ts'
import { lockAgentSocket } from '../burrow/agent-socket.ts'
import type { BurrowHost } from '../burrow/burrow-host.ts'
import {
  beginIntroduction,
  type Introducing,
  type Introduction,
  introduceBurrow,
} from '../burrow/introduce-burrow.ts'
import { type LaunchedBurrow, launchBurrow } from '../burrow/launch-burrow.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { discardSpare, type Spare } from '../burrow/spare.ts'
import type { CriuResult } from '../criu/run-criu.ts'
import type { SnapshotPaths } from '../host/layout.ts'
import { copyCarried } from '../image/carry-open-files.ts'
import { BurrowEnds } from '../network/burrow-ends.ts'
import { closeOutsideConnections } from '../network/open-gate.ts'
import type { FirstProcess } from '../process/first-process.ts'
import type { FullManifest } from '../storage/manifest.ts'
import { unusable } from '../storage/verify-snapshot.ts'
import type { Template } from '../template/template-store.ts'
import { requireLocks } from '../volume/volume-locks.ts'
import { type BrokenConnections, explainRestoreFailure, findBrokenConnections } from './explain-criu.ts'
import { prepareImages, refuseMountsOverOpenFiles } from './prepare-images.ts'
import { inheritTouched, startReadAhead } from './read-ahead.ts'
import { RestorableImages } from './restorable-images.ts'
import type { SnapshotHost } from './snapshot-host.ts'

/** Far beyond what a loaded machine needs; other restores wait for their turn meanwhile. */
const RESTORE_TIMEOUT_MS = 20_000

/** A snapshot with all that its processes need to run again. */
export interface RestoreSource {
  readonly paths: SnapshotPaths
  readonly manifest: FullManifest
  readonly template: Template
  readonly toolsDir: string
}

export interface RestoreProcesses extends RestoreSource {
  readonly sandboxId: SandboxId
  readonly limits: BurrowLimits
  readonly volumes: FullManifest['volumes']
  /** How much further the clocks and timers of the processes are than when they were saved; 0 by default. */
  readonly passedMs?: number
  /** The connections to the outside that continue. The others end. */
  readonly connections?: ParkedConnections | undefined
  /** Connections that an earlier try could not restore: they are closed. */
  readonly broken?: BrokenConnections | undefined
  readonly signal?: AbortSignal | undefined
}

export type RestoreBurrow = RestoreProcesses & Introduction

/**
 * Makes a burrow from a snapshot: take a spare, verify, launch, enter CRIU, introduce, publish. On failure nothing of
 * the burrow is left. The snapshot is only read, so any number of restores may run at once.
 */
export async function restoreBurrow(host: SnapshotHost, restore: RestoreBurrow): Promise<LinuxBurrow> {
  // The snapshot of a fork has just been written.
  if (restore.reason !== 'fork' && !host.arrivals.isArriving(restore.manifest.id))
    startReadAhead(restore.paths, restore.template)
  try {
    return await restoreOnce(host, restore)
  } catch (error) {
    return restoreWithoutBroken(host, restore, error)
  }
}

async function restoreOnce(host: SnapshotHost, restore: RestoreBurrow): Promise<LinuxBurrow> {
  const spare = await host.spares.take()
  let begun: Introducing | undefined
  try {
    const launched = await restoreProcesses(host, spare, restore, (ready) => {
      if (isIntroducedEarly(restore)) begun = beginIntroduction(host, ready, restore)
    })
    const burrow = await introduceBurrow(host, launched, restore, begun)
    void inheritTouched(restore.paths, burrow.paths)
    return burrow
  } catch (error) {
    begun?.burrow.release()
    await discardSpare(spare, host.hierarchies)
    throw error
  }
}

/**
 * Whether the agent may read its introduction as soon as it runs. An agent that wakes under another name, or earlier
 * in its life, ends processes, which CRIU may not have let go yet. Connections are closed or continued first.
 */
function isIntroducedEarly({ reason, sandboxId, manifest, connections = [] }: RestoreBurrow): boolean {
  const isSame = reason === 'resume' && sandboxId === manifest.sandboxId
  return isSame && manifest.outside !== true && connections.length === 0
}

/** A sandbox without some of its connections is better than none: first without those that broke, then without any. */
async function restoreWithoutBroken(
  host: SnapshotHost,
  restore: RestoreBurrow,
  error: unknown,
): Promise<LinuxBurrow> {
  const broken = findBrokenConnections(error)
  const isLast = restore.broken !== undefined && restore.broken.queueBytes === undefined
  if (broken === undefined || isLast || restore.signal?.aborted === true) throw error
  const { sandboxId } = restore
  host.failures.report('network', error, { sandboxId }, 'a connection was not restored, and is closed')
  const next = { ...restore, broken: restore.broken === undefined ? broken : { queueBytes: undefined } }
  return restoreOnce(host, next).catch((again: unknown) => restoreWithoutBroken(host, next, again))
}

/** Refuses a snapshot that cannot be restored here, before anything starts. */
async function verifyRestorable(host: SnapshotHost, restore: RestoreProcesses): Promise<void> {
  const { paths, manifest, volumes } = restore
  await host.verified.verifyOnce(paths, manifest)
  await refuseMountsOverOpenFiles(host.imageThreads, paths.images, {
    mounts: volumes,
    before: manifest.volumes,
  })
  const missing = manifest.layers.find((layer) => !existsSync(host.layout.layer(layer)))
  if (missing !== undefined) throw unusable(`its file layer ${missing} is missing`)
}

/**
 * The first half of a restore: verifies, launches a burrow in `spare` and brings the saved processes back in it. The
 * agent listens, but still has the identity of the sandbox that was saved. On failure the caller discards the spare.
 * `onConnectable`: the agent's socket is there, and no process has run yet. Not called on every host.
 */
export async function restoreProcesses(
  host: SnapshotHost,
  spare: Spare,
  restore: RestoreProcesses,
  onConnectable: (launched: LaunchedBurrow) => void = () => {},
): Promise<LaunchedBurrow> {
  const { paths, manifest } = restore
  // Pages unfold meanwhile.
  await using images = new RestorableImages(host, restore, spare.paths.unfolded)
  await verifyRestorable(host, restore)
  restore.signal?.throwIfAborted()
  const topLayer = manifest.layers[0] && host.layout.layer(manifest.layers[0])
  // Before the launch mounts the upper directory: overlayfs does not look at it again.
  await copyCarried({ list: paths.carried, layer: topLayer, upper: spare.paths.upper })
  const launched = await launchBurrow(host, spare, {
    sandboxId: restore.sandboxId,
    template: restore.template,
    toolsDir: restore.toolsDir,
    limits: restore.limits,
    layers: manifest.layers,
    volumes: restore.volumes,
    image: manifest.image,
    parent: manifest.id,
    memoryFiles: manifest.memory.map(({ name }) => join(paths.memory, name)),
    mountMemory: host.arrivals.mountFor(manifest.id),
    clocks: clocksOf(restore),
    lastPid: freePidAbove(manifest),
    hidesLimits: manifest.showsLimits !== true,
    signal: restore.signal,
  })
  const ends = await makeEnds(host, launched, restore.connections ?? [])
  try {
    const imagesDir = await images.directory
    let locked: Promise<void> | undefined
    const onRestored = () => {
      locked = lockAgentSocket(launched.first)
      locked.then(
        () => onConnectable(launched),
        // Tried again when CRIU has succeeded.
        () => {
          locked = undefined
        },
      )
    }
    await enterCriu(host, { spare, first: launched.first, imagesDir, onRestored }, restore)
    if (manifest.outside === true) await closeConnections(host, launched, ends)
    await ends?.start()
    await (locked ?? lockAgentSocket(launched.first))
  } catch (error) {
    ends?.discard()
    throw error
  }
  return { ...launched, ends }
}

/**
 * Before CRIU brings the processes back: a connection whose other end is missing when CRIU lets it go would be reset. A
 * sandbox without its connections is better than none.
 */
async function makeEnds(
  { failures }: BurrowHost,
  { first, record }: LaunchedBurrow,
  connections: ParkedConnections,
): Promise<BurrowEnds | undefined> {
  if (connections.length === 0) return undefined
  return BurrowEnds.make(first, connections).catch((error: unknown) => {
    const fields = { sandboxId: record.sandboxId, burrowId: record.id }
    failures.report('network', error, fields, 'connections of a restored burrow do not continue')
    return undefined
  })
}

/** Lets the CRIU of the spare bring the processes back below PID 1. */
async function enterCriu(
  { layout, imageThreads, arrivals }: SnapshotHost,
  {
    spare,
    first,
    imagesDir,
    onRestored,
  }: { spare: Spare; first: FirstProcess; imagesDir: string; onRestored: () => void },
  { paths, manifest, volumes, passedMs = 0, broken }: RestoreProcesses,
): Promise<void> {
  if (spare.restorer === undefined)
    throw new DormouseError('host_unsupported', 'This host has no CRIU that works.')
  const arriving = arrivals.isArriving(manifest.id) ? manifest.id : undefined
  await requireLocks({ locks: manifest.volumeLocks, mounts: volumes, volumesDir: layout.volumesDir })
  await using images = await prepareImages({
    imageThreads,
    imagesDir,
    memoryDir: paths.memory,
    volumeFiles: manifest.volumeFiles,
    mounts: volumes,
    volumesDir: layout.volumesDir,
    workDir: join(spare.paths.dir, 'images'),
    elapsedNs: toNs(passedMs),
    broken,
  })
  const entered = spare.restorer.enter({ firstPid: first.pid, imagesDir: images.directory, onRestored })
  const { exitCode, output } = await inTime(entered, { hasVolumes: volumes.length > 0, arriving })
  if (exitCode !== 0) throw explainRestoreFailure(output)
}

function clocksOf({ manifest, passedMs = 0 }: RestoreProcesses): FullManifest['clocks'] {
  const { monotonicNs, boottimeNs } = manifest.clocks
  return { monotonicNs: monotonicNs + toNs(passedMs), boottimeNs: boottimeNs + toNs(passedMs) }
}

function toNs(ms: number): bigint {
  return BigInt(Math.round(ms)) * 1_000_000n
}

/** A sandbox with connections that hang is better than none. */
async function closeConnections(
  { failures }: BurrowHost,
  { first, record }: LaunchedBurrow,
  ends: BurrowEnds | undefined,
): Promise<void> {
  await closeOutsideConnections(first, ends?.records).catch((error: unknown) => {
    const fields = { sandboxId: record.sandboxId, burrowId: record.id }
    failures.report('network', error, fields, 'connections of a restored burrow were not closed')
  })
}

/**
 * Another sandbox can replace a file on a volume with something that blocks when it is opened, such as a pipe. Memory
 * that arrives waits for its depot. Nothing else should make CRIU wait. When this throws, the burrow is removed, and CRIU
 * with it.
 */
function inTime(
  entered: Promise<CriuResult>,
  { hasVolumes, arriving }: { hasVolumes: boolean; arriving: SnapshotId | undefined },
): Promise<CriuResult> {
  const failed = () => new DormouseError('restore_failed', 'The snapshot was not restored in time.')
  if (hasVolumes) return withTimeout(entered, RESTORE_TIMEOUT_MS, failed)
  return withTimeout(entered, ARRIVAL_TIMEOUT_MS, arriving === undefined ? failed : () => tooLate(arriving))
}

/** The kernel's default for pid namespaces, whatever the host allows. */
const PID_MAX = 32_768
/** Pids of CRIU's own short-lived processes during a restore. */
const CRIU_PIDS = 200

/** A pid with enough free ones behind it: right above the highest of the tree, or in the first large gap. */
function freePidAbove({ images }: FullManifest): number {
  const used = images
    .flatMap(({ name }) => /^core-(?<tid>\d+)\.img$/.exec(name)?.groups?.tid ?? [])
    .map(Number)
  used.sort((a, b) => a - b)
  const highest = used.at(-1) ?? 0
  if (highest + CRIU_PIDS < PID_MAX) return highest + 1
  const before = used.findIndex((tid, index) => (used[index + 1] ?? PID_MAX) - tid > CRIU_PIDS)
  return (used[before] ?? 0) + 1
}
