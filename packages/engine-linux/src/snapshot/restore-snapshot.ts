import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type BurrowLimits, DormouseError, type SandboxId } from '@dormouse/contracts'
import type { SnapshotPaths } from '../burrow/layout.ts'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { type BurrowHost, type FillBurrow, type Introduce, startBurrow } from '../burrow/start-burrow.ts'
import { hangUpOutside } from '../network/open-gate.ts'
import type { Template } from '../template/template-store.ts'
import { refuseHiding, returnToVolumes } from '../volume/return-to-volumes.ts'
import { copyCarried } from './carry-open-files.ts'
import type { FullManifest } from './manifest.ts'
import { explainRestoreFailure } from './refusal.ts'
import { unusable, verifyOnce } from './verify-snapshot.ts'

/** Far beyond what a loaded machine needs; others wait for their turn meanwhile. */
const RESTORE_TIMEOUT_MS = 20_000

export type WakeReason = 'create' | 'resume' | 'fork' | 'rollback'

export interface FillFromSnapshot {
  readonly paths: SnapshotPaths
  readonly manifest: FullManifest
  readonly template: Template
  readonly toolsDir: string
  readonly sandboxId: SandboxId
  readonly limits?: BurrowLimits
  readonly volumes: FullManifest['volumes']
  readonly signal?: AbortSignal | undefined
}

export interface WhoWakes {
  readonly sandboxId: SandboxId
  readonly reason: WakeReason
  /** Whether random generators get a new seed. */
  readonly reseed: boolean
  readonly user?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
}

export type RestoreSnapshot = FillFromSnapshot & WhoWakes

/** Starts a burrow from a snapshot. The snapshot is only read: any number of restores may go on at once. */
export async function restoreSnapshot(host: BurrowHost, restore: RestoreSnapshot): Promise<LinuxBurrow> {
  const introduce = introducing(restore)
  return startBurrow(host, { ...(await fillingFrom(host, restore)), introduce })
}

export function introducing({ sandboxId, reason, reseed, user, env }: WhoWakes): Introduce {
  return (burrow) =>
    burrow.guest.wake({ sandboxId, reason, reseed, ...(user && { user }), ...(env && { env }) })
}

/** How a burrow is filled from a snapshot. Throws when it cannot be: then nothing has been started. */
export async function fillingFrom(host: BurrowHost, restore: FillFromSnapshot): Promise<FillBurrow> {
  const { paths, manifest, template, sandboxId, volumes } = restore
  await verifyOnce(paths, manifest)
  await refuseHiding(paths.images, { mounts: volumes, before: manifest.volumes })
  const missing = manifest.layers.find((layer) => !existsSync(host.layout.layer(layer)))
  if (missing !== undefined) throw unusable(`its file layer ${missing} is missing`)
  let workDir = ''
  return {
    sandboxId,
    template,
    layers: manifest.layers,
    toolsDir: restore.toolsDir,
    limits: restore.limits ?? manifest.limits,
    volumes,
    parent: manifest.id,
    memoryFiles: manifest.memory.map(({ name }) => join(paths.memory, name)),
    prepareFiles: (upper) => {
      workDir = join(dirname(upper), 'images')
      return copyCarried({ list: paths.carried, layer: topLayer(host, manifest), upper })
    },
    clocks: manifest.clocks,
    lastPid: freePidAbove(manifest),
    agent: [],
    agentEnv: [],
    fill: async (first, restorer) => {
      const { images: imagesDir } = paths
      const { volumeFiles } = manifest
      const { volumesDir } = host.layout
      const returned = await returnToVolumes({
        ...{ imagesDir, memoryDir: paths.memory, volumeFiles, mounts: volumes, volumesDir, workDir },
      })
      const entered = restorer.enter({ firstPid: first.pid, imagesDir: returned.imagesDir })
      const { exitCode, output } = await (volumes.length === 0 ? entered : soon(entered))
      await returned.forget()
      if (exitCode !== 0) throw explainRestoreFailure(output)
      if (manifest.outside === true) await hangUpOutside(first)
    },
    signal: restore.signal,
  }
}

/**
 * Others can put something in the place of a file on a volume that cannot be opened without waiting, such as a pipe. Nothing else makes CRIU
 * wait, and it must not do so for ever: the burrow, and CRIU with it, goes when this throws.
 */
async function soon<Result>(restored: Promise<Result>): Promise<Result> {
  const timer = new AbortController()
  const tooLate = setTimeout(RESTORE_TIMEOUT_MS, undefined, { signal: timer.signal }).then(() => {
    throw new DormouseError('restore_failed', 'The snapshot was not restored in time.')
  })
  try {
    return await Promise.race([restored, tooLate])
  } finally {
    timer.abort()
    tooLate.catch(() => {})
  }
}

function topLayer({ layout }: BurrowHost, { layers }: FullManifest): string | undefined {
  return layers[0] && layout.layer(layers[0])
}

/** The kernel's default for pid namespaces, whatever the host allows. */
const PID_MAX = 32_768
/** CRIU's own short-lived processes during a restore. */
const CRIU_PIDS = 200

/** A pid such that the next ones are not those of the tree: right above the highest, or in the first gap when that is too high. */
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
