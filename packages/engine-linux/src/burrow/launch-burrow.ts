import { link } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import { allOf } from '@dormouse/async'
import type { BurrowLimits, LayerId, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Gate, ProgramSettings } from '@dormouse/engine'
import type { MemoryMount, MemoryPlace } from '../arrival/memory-mount.ts'
import type { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { BurrowPaths } from '../host/layout.ts'
import type { BurrowEnds } from '../network/burrow-ends.ts'
import type { FirstProcess } from '../process/first-process.ts'
import type { Template } from '../template/template-store.ts'
import { describeMounts, explainMountFailure } from '../volume/volume-mounts.ts'
import type { BurrowHost } from './burrow-host.ts'
import { type BurrowRecord, newRecord, writeRecord } from './burrow-record.ts'
import type { InitConfig } from './launch-init.ts'
import { memoryPlace } from './memory-place.ts'
import { ShownLimits } from './shown-limits.ts'
import { SPARE_LIMITS, type Spare } from './spare.ts'

export interface LaunchBurrow {
  readonly sandboxId: SandboxId
  readonly template: Template
  readonly toolsDir: string
  readonly limits: BurrowLimits
  /** File layers between the template and the burrow's own files, top first. */
  readonly layers?: readonly LayerId[]
  readonly volumes?: BurrowRecord['volumes']
  /** How programs start in a burrow of an image; its snapshots record it. */
  readonly image?: ProgramSettings | undefined
  /** The snapshot that the burrow starts from. */
  readonly parent?: SnapshotId
  /** Host paths of the memory files that its processes will map. */
  readonly memoryFiles?: readonly string[]
  /** Shows them to the burrow while pages are missing. Without it the burrow sees the files themselves. */
  readonly mountMemory?: ((place: MemoryPlace) => Promise<MemoryMount>) | undefined
  /** What the monotonic and the boot-time clock read at the start; 0 by default. */
  readonly clocks?: { readonly monotonicNs: bigint; readonly boottimeNs: bigint }
  /** The command that becomes pid 2. Without it the burrow has no process but PID 1. */
  readonly agent?: { readonly argv: readonly string[]; readonly env: readonly string[] }
  /** Pids up to this one stay free for processes that are restored. */
  readonly lastPid?: number
  readonly signal?: AbortSignal | undefined
  /** A host directory that the burrow sees at /.dormouse/run, instead of a file system of its own. */
  readonly runDir?: string
  /** Programs inside see the machine as the kernel does: its open files come from such a burrow. */
  readonly hidesLimits?: boolean
}

/** A burrow whose PID 1 runs. Its record says `starting`, so the next server removes it instead of adopting it. */
export interface LaunchedBurrow {
  readonly paths: BurrowPaths
  readonly cgroup: BurrowCgroup
  readonly first: FirstProcess
  readonly record: BurrowRecord
  /** Opened ahead of need. */
  readonly gate?: Gate | undefined
  /** Of the connections that continue in this burrow. */
  readonly ends?: BurrowEnds | undefined
}

/**
 * Turns a spare into a burrow: mounts, namespaces, PID 1 and, if given, the agent. On failure the caller discards the
 * spare.
 *
 * The steps run side by side. The record need not be there first: a burrow without a record is removed by the next
 * server like one with it, and while it has none no layer is collected, because the mark of a spare is gone.
 */
export async function launchBurrow(
  host: BurrowHost,
  { paths, cgroup, init }: Spare,
  launch: LaunchBurrow,
): Promise<LaunchedBurrow> {
  const { memoryFiles = [], mountMemory, signal } = launch
  const record = describeLaunch(paths, launch)
  // A burrow gets links to its own memory files, not a shared directory. The last link frees the file.
  const linked = allOf(memoryFiles.map((file) => link(file, join(paths.memory, basename(file)))))
  const mount = mountMemory && (await linked.then(() => mountMemory(memoryPlace(paths))))
  const launching = init.launch(initConfig(host, launch, { paths, memory: mount?.directory }), signal)
  // While dormouse-init works: it only mounts these files, and it takes longer than writing them.
  new ShownLimits(paths.limits, SPARE_LIMITS, { isFresh: true }).setLimits(launch.limits)
  try {
    const [first] = await allOf([
      launching.catch((error: unknown) => {
        throw explainMountFailure(error)
      }),
      writeRecord(paths.record, record),
      cgroup.applyToNew(launch.limits, SPARE_LIMITS),
      linked,
    ])
    mount?.hide()
    return { paths, cgroup, first, record }
  } catch (error) {
    mount?.channel.destroy()
    throw error
  }
}

function describeLaunch(paths: BurrowPaths, launch: LaunchBurrow): BurrowRecord {
  return newRecord({
    id: paths.id,
    sandboxId: launch.sandboxId,
    template: launch.template.name,
    templateHash: launch.template.hash,
    layers: [...(launch.layers ?? [])],
    tools: basename(launch.toolsDir),
    limits: launch.limits,
    volumes: launch.volumes ?? [],
    ...(launch.parent !== undefined && { parent: launch.parent }),
    ...(launch.image !== undefined && { image: launch.image }),
  })
}

function initConfig(
  { layout, kdatDir }: BurrowHost,
  launch: LaunchBurrow,
  { paths, memory = paths.memory }: { paths: BurrowPaths; memory: string | undefined },
): InitConfig {
  const { layers = [], volumes = [], clocks = { monotonicNs: 0n, boottimeNs: 0n } } = launch
  // Relative, because processes inside can read mount options, which should not show paths of the host.
  const lower = [...layers.map((layer) => layout.layer(layer)), launch.template.rootfs]
    .map((path) => relative(paths.dir, path))
    .join(':')
  return {
    hostname: launch.sandboxId,
    root: layout.rootMountPoint,
    overlay: `lowerdir=${lower},upperdir=upper,workdir=work,redirect_dir=on,index=off,metacopy=off`,
    tools: launch.toolsDir,
    ...(launch.runDir !== undefined && { link: launch.runDir }),
    memory,
    ...(kdatDir !== undefined && { kdat: kdatDir }),
    ...(launch.hidesLimits !== true && { limits: paths.limits }),
    ...(volumes.length > 0 && { volumes: layout.volumesDir, volume: describeMounts(volumes) }),
    pid_file: paths.pidFile,
    end_file: paths.endFile,
    monotonic_ns: String(clocks.monotonicNs),
    boottime_ns: String(clocks.boottimeNs),
    ...(launch.lastPid !== undefined && { last_pid: launch.lastPid }),
    agent: launch.agent?.argv ?? [],
    env: launch.agent?.env ?? [],
  }
}
