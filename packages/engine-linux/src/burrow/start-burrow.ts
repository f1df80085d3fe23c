import { chown, link, lstat, mkdir } from 'node:fs/promises'
import { basename, join, relative } from 'node:path'
import {
  type BurrowLimits,
  DormouseError,
  type LayerId,
  newBurrowId,
  type SandboxId,
  type SnapshotId,
} from '@dormouse/contracts'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { nativeBuildDir } from '../native-programs.ts'
import type { Template } from '../template/template-store.ts'
import { newRecord, writeRecord } from './burrow-record.ts'
import { type FirstProcess, findFirstProcess } from './first-process.ts'
import { launchInit } from './launch-init.ts'
import type { BurrowPaths, Layout } from './layout.ts'
import { LinuxBurrow } from './linux-burrow.ts'
import { removeBurrow } from './remove-burrow.ts'

/** What the host offers to every burrow. */
export interface BurrowHost {
  readonly layout: Layout
  readonly hierarchies: Hierarchies
  /** What CRIU knows of this kernel, shown at /.dormouse/kdat. */
  readonly kdatDir?: string
}

interface LaunchBurrow {
  readonly sandboxId: SandboxId
  readonly template: Template
  readonly layers: readonly LayerId[]
  readonly toolsDir: string
  readonly limits: BurrowLimits
  readonly parent?: SnapshotId
  /** Host paths of the memory files that its processes will map. */
  readonly memoryFiles: readonly string[]
  /** What the monotonic and the boot-time clock read at the start. */
  readonly clocks: { readonly monotonicNs: bigint; readonly boottimeNs: bigint }
  /** The command that becomes pid 2; without it the burrow starts empty and `fill` has to bring the agent. */
  readonly agent: readonly string[]
  readonly agentEnv: readonly string[]
  /** Pids up to this one are left free for what is restored. */
  readonly lastPid?: number
  readonly signal?: AbortSignal | undefined
}

export interface Filler {
  fill(first: FirstProcess): Promise<void>
  cancel(): void
}

export interface StartBurrow extends LaunchBurrow {
  /** Brings the processes of a burrow that starts empty. Called before it is made, to get ready meanwhile. */
  readonly filler?: (cgroups: readonly string[]) => Filler
  /** Tells the agent who it is. */
  readonly introduce: (burrow: LinuxBurrow) => Promise<void>
}

/** Makes a burrow and waits until its agent answers. On any failure all of it is removed again. */
export async function startBurrow(host: BurrowHost, start: StartBurrow): Promise<LinuxBurrow> {
  const { hierarchies } = host
  const paths = host.layout.burrow(newBurrowId())
  let filler: Filler | undefined
  try {
    const { record, cgroup } = await prepareBurrow(host, start, paths)
    filler = start.filler?.(cgroup.directories)
    const first = await launchBurrow(host, start, paths, cgroup)
    await filler?.fill(first)
    await closeLink(paths)
    const ready = { ...record, state: 'ready' as const }
    const burrow = new LinuxBurrow({ record: ready, paths, first, hierarchies })
    await start.introduce(burrow)
    await writeRecord(paths.record, ready)
    return burrow
  } catch (error) {
    filler?.cancel()
    await removeBurrow(paths, hierarchies)
    throw error
  }
}

/** A burrow in which nothing runs but its PID 1, for as long as `work` takes. It sees `link` at /.dormouse/run. */
export async function withEmptyBurrow(
  host: BurrowHost,
  { link, ...start }: Pick<StartBurrow, 'sandboxId' | 'template' | 'toolsDir' | 'limits'> & { link: string },
  work: (first: FirstProcess) => Promise<void>,
): Promise<void> {
  const paths = { ...host.layout.burrow(newBurrowId()), link }
  const clocks = { monotonicNs: 0n, boottimeNs: 0n }
  try {
    const whole = { ...start, layers: [], memoryFiles: [], clocks, agent: [], agentEnv: [] }
    const { cgroup } = await prepareBurrow(host, whole, paths)
    const first = await launchBurrow(host, whole, paths, cgroup)
    await work(first)
  } finally {
    await removeBurrow(paths, host.hierarchies)
  }
}

/** What is needed on disk and in the cgroup tree before there is any process. */
async function prepareBurrow(host: BurrowHost, start: LaunchBurrow, paths: BurrowPaths) {
  start.signal?.throwIfAborted()
  const record = newRecord({
    id: paths.id,
    sandboxId: start.sandboxId,
    template: start.template.name,
    templateHash: start.template.hash,
    layers: [...start.layers],
    tools: basename(start.toolsDir),
    limits: start.limits,
    ...(start.parent !== undefined && { parent: start.parent }),
  })
  await makeDirectories(paths, start)
  await writeRecord(paths.record, record)
  const cgroup = new BurrowCgroup(host.hierarchies, paths.cgroup)
  await cgroup.create(start.limits)
  return { record, cgroup }
}

async function launchBurrow(
  host: BurrowHost,
  start: LaunchBurrow,
  paths: BurrowPaths,
  cgroup: BurrowCgroup,
): Promise<FirstProcess> {
  await launchInit({ config: initConfig(host, start, paths, cgroup), cwd: paths.dir, signal: start.signal })
  const first = await findFirstProcess(paths.pidFile)
  if (first === undefined) throw new DormouseError('burrow_start_failed', 'The burrow left no pid behind.')
  return first
}

async function makeDirectories(paths: BurrowPaths, { template, memoryFiles }: LaunchBurrow): Promise<void> {
  const owner = template.manifest.uidBase
  await mkdir(paths.dir, { recursive: true, mode: 0o700 })
  await mkdir(paths.run, { recursive: true, mode: 0o700 })
  for (const path of [paths.upper, paths.work, paths.link]) {
    await mkdir(path, { mode: 0o755 })
    await chown(path, owner, owner)
  }
  await mkdir(paths.memory, { mode: 0o755 })
  // Links, not a shared directory: a burrow sees the memory it has itself and nobody else's. The last link frees the file.
  for (const file of memoryFiles) await link(file, join(paths.memory, basename(file)))
}

/**
 * The agent has made its socket. From here on nobody inside can remove or replace it: a symlink in its place would make the
 * host connect to a socket of the sandbox's choice.
 */
async function closeLink(paths: BurrowPaths): Promise<void> {
  await chown(paths.link, 0, 0)
  const socket = await lstat(paths.socket)
  if (!socket.isSocket()) throw new DormouseError('burrow_start_failed', 'The agent left no socket behind.')
}

function initConfig(host: BurrowHost, start: LaunchBurrow, paths: BurrowPaths, cgroup: BurrowCgroup) {
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
    link: paths.link,
    memory: paths.memory,
    ...(host.kdatDir !== undefined && { kdat: host.kdatDir }),
    filters: nativeBuildDir,
    pid_file: paths.pidFile,
    end_file: paths.endFile,
    cgroup: cgroup.directories,
    uid_base: uidBase,
    uid_count: uidCount,
    monotonic_ns: String(start.clocks.monotonicNs),
    boottime_ns: String(start.clocks.boottimeNs),
    ...(start.lastPid !== undefined && { last_pid: start.lastPid }),
    agent: start.agent,
    env: start.agentEnv,
  }
}
