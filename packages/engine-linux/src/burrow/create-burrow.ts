import { chown, lstat, mkdir } from 'node:fs/promises'
import { relative } from 'node:path'
import { type BurrowLimits, DormouseError, newBurrowId } from '@dormouse/contracts'
import type { CreateBurrow } from '@dormouse/engine'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { nativeBuildDir } from '../native-programs.ts'
import type { Template } from '../template/template-store.ts'
import { newRecord, writeRecord } from './burrow-record.ts'
import { findFirstProcess } from './first-process.ts'
import { launchInit } from './launch-init.ts'
import type { BurrowPaths, Layout } from './layout.ts'
import { LinuxBurrow } from './linux-burrow.ts'
import { removeBurrow } from './remove-burrow.ts'

export interface BurrowParts {
  readonly request: CreateBurrow
  readonly limits: BurrowLimits
  readonly template: Template
  readonly toolsDir: string
  readonly layout: Layout
  readonly hierarchies: Hierarchies
}

const AGENT = ['/usr/bin/python3', '-I', '-B', '-S', '/.dormouse/guest/dormouse_agent']
const AGENT_ENV = [
  'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  'LANG=C.UTF-8',
  'HOME=/root',
  'DORMOUSE_AGENT_SOCKET=/.dormouse/run/agent.sock',
  'DORMOUSE_READY_FD=3',
]

/** Makes a burrow and waits until its agent answers. On any failure all of it is removed again. */
export async function createBurrow(parts: BurrowParts, signal?: AbortSignal): Promise<LinuxBurrow> {
  const { request, limits, template, layout, hierarchies } = parts
  signal?.throwIfAborted()
  const id = newBurrowId()
  const paths = layout.burrow(id)
  const record = newRecord({ id, sandboxId: request.sandboxId, template: template.name, limits })
  try {
    await makeDirectories(paths, template.manifest.uidBase)
    await writeRecord(paths.record, record)
    const cgroup = new BurrowCgroup(hierarchies, paths.cgroup)
    await cgroup.create(limits)
    await launchInit({ config: initConfig(parts, paths, cgroup), cwd: paths.dir, signal })
    await closeLink(paths)
    const first = await findFirstProcess(paths.pidFile)
    if (first === undefined) throw new DormouseError('burrow_start_failed', 'The burrow left no pid behind.')
    const ready = { ...record, state: 'ready' as const }
    const burrow = new LinuxBurrow({ record: ready, paths, first, hierarchies })
    const { sandboxId, user, env } = request
    await burrow.guest.configure({ sandboxId, ...(user && { user }), ...(env && { env }) })
    await writeRecord(paths.record, ready)
    return burrow
  } catch (error) {
    await removeBurrow(paths, hierarchies)
    throw error
  }
}

async function makeDirectories(paths: BurrowPaths, owner: number): Promise<void> {
  await mkdir(paths.dir, { recursive: true, mode: 0o700 })
  await mkdir(paths.run, { recursive: true, mode: 0o700 })
  for (const path of [paths.upper, paths.work, paths.link]) {
    await mkdir(path, { mode: 0o755 })
    await chown(path, owner, owner)
  }
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

function initConfig(
  { request, template, toolsDir, layout }: BurrowParts,
  paths: BurrowPaths,
  cgroup: BurrowCgroup,
) {
  const { uidBase, uidCount } = template.manifest
  // Relative, because mount options can be read inside and should not tell about the host.
  const lower = relative(paths.dir, template.rootfs)
  return {
    hostname: request.sandboxId,
    root: layout.rootMountPoint,
    overlay: `lowerdir=${lower},upperdir=upper,workdir=work,redirect_dir=on,index=off,metacopy=off`,
    tools: toolsDir,
    link: paths.link,
    filters: nativeBuildDir,
    pid_file: paths.pidFile,
    end_file: paths.endFile,
    cgroup: cgroup.directories,
    uid_base: uidBase,
    uid_count: uidCount,
    monotonic_ns: 0,
    boottime_ns: 0,
    agent: AGENT,
    env: AGENT_ENV,
  }
}
