import { link } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import type { BurrowLimits, LayerId, SandboxId, SnapshotId } from '@dormouse/contracts'
import type { Gate } from '@dormouse/engine'
import type { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import type { StartedCriu } from '../criu/run-criu.ts'
import { allOf } from '../host/settle-all.ts'
import { nativeBuildDir } from '../native-programs.ts'
import type { Template } from '../template/template-store.ts'
import { describeMounts, explainMountFailure } from '../volume/volume-mounts.ts'
import { closeLink } from './agent-link.ts'
import { type BurrowRecord, newRecord, prepareRecord, writeRecord } from './burrow-record.ts'
import type { FirstProcess } from './first-process.ts'
import type { InitConfig } from './launch-init.ts'
import type { BurrowPaths, Layout } from './layout.ts'
import { LinuxBurrow } from './linux-burrow.ts'
import { removeBurrow } from './remove-burrow.ts'
import type { Spare, SparePool } from './spare.ts'

/** What the host offers to every burrow. */
export interface BurrowHost {
  readonly layout: Layout
  readonly hierarchies: Hierarchies
  readonly spares: SparePool
  /** What CRIU knows of this kernel, shown at /.dormouse/kdat. */
  readonly kdatDir?: string
}

interface LaunchBurrow {
  readonly sandboxId: SandboxId
  readonly template: Template
  readonly layers: readonly LayerId[]
  readonly toolsDir: string
  readonly limits: BurrowLimits
  readonly volumes: BurrowRecord['volumes']
  readonly parent?: SnapshotId
  /** Host paths of the memory files that its processes will map. */
  readonly memoryFiles: readonly string[]
  /** Puts into the upper directory what its own files begin with. */
  readonly prepareFiles?: (upper: string) => Promise<void>
  /** What the monotonic and the boot-time clock read at the start. */
  readonly clocks: { readonly monotonicNs: bigint; readonly boottimeNs: bigint }
  /** The command that becomes pid 2; without it the burrow starts empty and `fill` has to bring the agent. */
  readonly agent: readonly string[]
  readonly agentEnv: readonly string[]
  /** Pids up to this one are left free for what is restored. */
  readonly lastPid?: number
  readonly signal?: AbortSignal | undefined
  /** A host directory that it sees at /.dormouse/run, instead of a file system of its own. */
  readonly link?: string
}

export interface FillBurrow extends LaunchBurrow {
  /** Brings the processes of a burrow that starts empty. */
  readonly fill?: (first: FirstProcess, restorer: StartedCriu) => Promise<void>
  /** Whether it is to wait for somebody whose it will be. */
  readonly isSpare?: boolean
}

/** Tells the agent who it is. */
export type Introduce = (burrow: LinuxBurrow) => Promise<void>

/** Its agent listens, and has not been told yet who it is. Nobody knows of it: its record says `starting`. */
export interface FilledBurrow {
  readonly paths: BurrowPaths
  readonly cgroup: BurrowCgroup
  readonly first: FirstProcess
  readonly record: BurrowRecord
  /** One that was opened ahead of need. */
  readonly gate?: Gate | undefined
}

/** Makes a burrow and waits until its agent answers. On any failure all of it is removed again. */
export async function startBurrow(
  host: BurrowHost,
  start: FillBurrow & { readonly introduce: Introduce },
): Promise<LinuxBurrow> {
  return introduceBurrow(host, await fillBurrow(host, start), start.introduce)
}

/** On any failure all of it is removed again. */
export async function fillBurrow(host: BurrowHost, start: FillBurrow): Promise<FilledBurrow> {
  start.signal?.throwIfAborted()
  const spare = await host.spares.take({ keepsMark: start.isSpare === true })
  const { paths, cgroup } = spare
  try {
    const record = describeStart(paths, start)
    const first = await launchBurrow(host, { ...start, record }, spare)
    if (start.fill !== undefined && spare.restorer !== undefined) await start.fill(first, spare.restorer)
    else spare.restorer?.cancel()
    await closeLink(first)
    return { paths, cgroup, first, record }
  } catch (error) {
    spare.init.cancel()
    spare.restorer?.cancel()
    await removeBurrow(paths, host.hierarchies)
    throw explainMountFailure(error)
  }
}

/** From here on it is somebody's. On any failure all of it is removed. */
export async function introduceBurrow(
  { hierarchies }: BurrowHost,
  { paths, first, record, gate }: FilledBurrow,
  introduce: Introduce,
): Promise<LinuxBurrow> {
  const ready = { ...record, state: 'ready' as const }
  const burrow = new LinuxBurrow({ record: ready, paths, first, hierarchies, gate })
  try {
    // An agent that has not been introduced must not be adopted: it still has the seeds of its snapshot.
    const [publish] = await allOf([prepareRecord(paths.record, ready), introduce(burrow)])
    await publish()
    return burrow
  } catch (error) {
    burrow.release()
    await removeBurrow(paths, hierarchies)
    throw error
  }
}

/** A burrow in which nothing runs but its PID 1, for as long as `work` takes. It sees `link` at /.dormouse/run. */
export async function withEmptyBurrow(
  host: BurrowHost,
  start: Pick<LaunchBurrow, 'sandboxId' | 'template' | 'toolsDir' | 'limits'> & { link: string },
  work: (first: FirstProcess) => Promise<void>,
): Promise<void> {
  const spare = await host.spares.take()
  const clocks = { monotonicNs: 0n, boottimeNs: 0n }
  try {
    spare.restorer?.cancel()
    const whole = { ...start, layers: [], volumes: [], memoryFiles: [], clocks, agent: [], agentEnv: [] }
    const record = describeStart(spare.paths, whole)
    await work(await launchBurrow(host, { ...whole, record }, spare))
  } finally {
    spare.init.cancel()
    await removeBurrow(spare.paths, host.hierarchies)
  }
}

function describeStart(paths: BurrowPaths, start: LaunchBurrow): BurrowRecord {
  return newRecord({
    id: paths.id,
    sandboxId: start.sandboxId,
    template: start.template.name,
    templateHash: start.template.hash,
    layers: [...start.layers],
    tools: basename(start.toolsDir),
    limits: start.limits,
    volumes: start.volumes,
    ...(start.parent !== undefined && { parent: start.parent }),
  })
}

/**
 * Its parts do not depend on each other. A burrow without a record is removed by the next server like one with it, and while
 * there is none no layer is collected (the mark of a spare is gone), so the record need not be there first.
 */
async function launchBurrow(
  host: BurrowHost,
  start: LaunchBurrow & { readonly record: BurrowRecord },
  { paths, cgroup, init }: Spare,
): Promise<FirstProcess> {
  // Before it is mounted: overlayfs does not look again.
  await start.prepareFiles?.(paths.upper)
  const [first] = await allOf([
    init.launch(initConfig(host, start, paths), start.signal),
    writeRecord(paths.record, start.record),
    cgroup.apply(start.limits),
    // Links, not a shared directory: a burrow sees the memory it has itself and nobody else's. The last link frees the file.
    ...start.memoryFiles.map((file) => link(file, join(paths.memory, basename(file)))),
  ])
  return first
}

function initConfig(host: BurrowHost, start: LaunchBurrow, paths: BurrowPaths): InitConfig {
  const { uidBase, uidCount } = start.template.manifest
  // Relative, because mount options can be read inside and should not tell about the host.
  const lower = [...start.layers.map((layer) => host.layout.layer(layer)), start.template.rootfs]
    .map((path) => relative(paths.dir, path))
    .join(':')
  return {
    hostname: start.sandboxId,
    root: host.layout.rootMountPoint,
    overlay: `lowerdir=${lower},upperdir=upper,workdir=work,redirect_dir=on,index=off,metacopy=off`,
    tools: start.toolsDir,
    ...(start.link !== undefined && { link: start.link }),
    memory: paths.memory,
    ...(host.kdatDir !== undefined && { kdat: host.kdatDir }),
    ...(start.volumes.length > 0 && {
      volumes: host.layout.volumesDir,
      volume: describeMounts(start.volumes),
    }),
    filters: nativeBuildDir,
    pid_file: paths.pidFile,
    end_file: paths.endFile,
    uid_base: uidBase,
    uid_count: uidCount,
    monotonic_ns: String(start.clocks.monotonicNs),
    boottime_ns: String(start.clocks.boottimeNs),
    ...(start.lastPid !== undefined && { last_pid: start.lastPid }),
    agent: start.agent,
    env: start.agentEnv,
  }
}
