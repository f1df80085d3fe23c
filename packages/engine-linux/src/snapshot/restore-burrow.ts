import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { withTimeout } from '@dormouse/async'
import { type BurrowLimits, DormouseError, type SandboxId } from '@dormouse/contracts'
import { lockAgentSocket } from '../burrow/agent-socket.ts'
import type { BurrowHost } from '../burrow/burrow-host.ts'
import { type LaunchedBurrow, launchBurrow } from '../burrow/launch-burrow.ts'
import { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { discardSpare, type Spare } from '../burrow/spare.ts'
import type { CriuResult } from '../criu/run-criu.ts'
import type { SnapshotPaths } from '../host/layout.ts'
import { copyCarried } from '../image/carry-open-files.ts'
import { closeOutsideConnections } from '../network/open-gate.ts'
import type { FirstProcess } from '../process/first-process.ts'
import type { FullManifest } from '../storage/manifest.ts'
import { unusable, verifyOnce } from '../storage/verify-snapshot.ts'
import type { Template } from '../template/template-store.ts'
import { explainRestoreFailure } from './explain-criu.ts'
import { prepareImages, refuseMountsOverOpenFiles } from './prepare-images.ts'

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
  readonly signal?: AbortSignal | undefined
}

/** What the engine tells the restored agent about itself. */
export interface Introduction {
  readonly sandboxId: SandboxId
  readonly reason: 'create' | 'resume' | 'fork' | 'rollback'
  /** Whether random generators get a new seed. */
  readonly reseed: boolean
  readonly user?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

export type RestoreBurrow = RestoreProcesses & Introduction

/**
 * Makes a burrow from a snapshot: verify, take a spare, launch, enter CRIU, introduce, publish. On failure nothing of
 * the burrow is left. The snapshot is only read, so any number of restores may run at once.
 */
export async function restoreBurrow(host: BurrowHost, restore: RestoreBurrow): Promise<LinuxBurrow> {
  await verifyRestorable(host, restore)
  restore.signal?.throwIfAborted()
  const spare = await host.spares.take()
  try {
    const launched = await restoreProcesses(host, spare, restore)
    return await introduceBurrow(host, launched, restore)
  } catch (error) {
    await discardSpare(spare, host.hierarchies)
    throw error
  }
}

/** Refuses a snapshot that cannot be restored here, before anything starts. */
export async function verifyRestorable(host: BurrowHost, restore: RestoreProcesses): Promise<void> {
  const { paths, manifest, volumes } = restore
  await verifyOnce(paths, manifest)
  await refuseMountsOverOpenFiles(paths.images, { mounts: volumes, before: manifest.volumes })
  const missing = manifest.layers.find((layer) => !existsSync(host.layout.layer(layer)))
  if (missing !== undefined) throw unusable(`its file layer ${missing} is missing`)
}

/**
 * The first half of a restore: launches a burrow in `spare` and brings the saved processes back in it. The agent
 * listens, but still has the identity of the sandbox that was saved. On failure the caller discards the spare.
 */
export async function restoreProcesses(
  host: BurrowHost,
  spare: Spare,
  restore: RestoreProcesses,
): Promise<LaunchedBurrow> {
  const { paths, manifest } = restore
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
    parent: manifest.id,
    memoryFiles: manifest.memory.map(({ name }) => join(paths.memory, name)),
    clocks: manifest.clocks,
    lastPid: freePidAbove(manifest),
    signal: restore.signal,
  })
  await enterCriu(host, { spare, first: launched.first }, restore)
  if (manifest.outside === true) await closeConnections(host, launched)
  await lockAgentSocket(launched.first)
  return launched
}

/**
 * The second half of a restore: tells the agent who it is now and publishes the burrow's record. On failure the caller
 * removes the burrow.
 */
export async function introduceBurrow(
  host: BurrowHost,
  launched: LaunchedBurrow,
  { sandboxId, reason, reseed, user, env }: Introduction,
): Promise<LinuxBurrow> {
  const burrow = new LinuxBurrow(host, launched)
  const introduced = burrow.guest.wake({
    sandboxId,
    reason,
    reseed,
    ...(user && { user }),
    ...(env && { env }),
  })
  await burrow.publish(introduced)
  return burrow
}

/** Lets the CRIU of the spare bring the processes back below PID 1. */
async function enterCriu(
  { layout }: BurrowHost,
  { spare, first }: { spare: Spare; first: FirstProcess },
  { paths, manifest, volumes }: RestoreProcesses,
): Promise<void> {
  if (spare.restorer === undefined)
    throw new DormouseError('host_unsupported', 'This host has no CRIU that works.')
  await using images = await prepareImages({
    imagesDir: paths.images,
    memoryDir: paths.memory,
    volumeFiles: manifest.volumeFiles,
    mounts: volumes,
    volumesDir: layout.volumesDir,
    workDir: join(spare.paths.dir, 'images'),
  })
  const entered = spare.restorer.enter({ firstPid: first.pid, imagesDir: images.directory })
  const { exitCode, output } = await (volumes.length === 0 ? entered : inTime(entered))
  if (exitCode !== 0) throw explainRestoreFailure(output)
}

/** A sandbox with connections that hang is better than none. */
async function closeConnections({ failures }: BurrowHost, { first, record }: LaunchedBurrow): Promise<void> {
  await closeOutsideConnections(first).catch((error: unknown) => {
    const fields = { sandboxId: record.sandboxId, burrowId: record.id }
    failures.report('network', error, fields, 'connections of a restored burrow were not closed')
  })
}

/**
 * Another sandbox can replace a file on a volume with something that blocks when it is opened, such as a pipe. Nothing
 * else makes CRIU wait. When this throws, the burrow is removed, and CRIU with it.
 */
function inTime(entered: Promise<CriuResult>): Promise<CriuResult> {
  const tooLate = () => new DormouseError('restore_failed', 'The snapshot was not restored in time.')
  return withTimeout(entered, RESTORE_TIMEOUT_MS, tooLate)
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
