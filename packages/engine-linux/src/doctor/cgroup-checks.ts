import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Check, fail, ok, warn } from './check.ts'

const NEEDED_CONTROLLERS = ['memory', 'cpu', 'pids']

interface CgroupMounts {
  /** The v2 mount with its controllers, if there is one. */
  readonly unified: { path: string; controllers: string[] } | undefined
  /** Controllers that v1 hierarchies carry. */
  readonly v1: string[]
}

export async function checkCgroups(): Promise<Check[]> {
  const mounts = await readCgroupMounts()
  return [checkControllers(mounts), await checkFreezer(mounts)]
}

function checkControllers({ unified, v1 }: CgroupMounts): Check {
  const subject = { id: 'cgroups', title: 'Control groups', meaning: 'limits for memory, cpu and processes' }
  const onV2 = unified?.controllers ?? []
  const missing = NEEDED_CONTROLLERS.filter((name) => !onV2.includes(name) && !v1.includes(name))
  const version = v1.length === 0 ? 'v2' : unified === undefined ? 'v1' : 'v1 with a v2 mount'
  const found = `${version}, controllers: ${[...new Set([...onV2, ...v1])].sort().join(' ') || 'none'}`
  if (missing.length === 0) return ok(subject, found)
  return fail(
    subject,
    `${found}; missing: ${missing.join(' ')}`,
    unified === undefined && v1.length === 0
      ? 'Mount the cgroup file system: `mount -t cgroup2 none /sys/fs/cgroup`.'
      : 'Enable them at boot (for memory: the kernel parameter `cgroup_enable=memory`), or mount their hierarchies.',
  )
}

async function checkFreezer({ unified, v1 }: CgroupMounts): Promise<Check> {
  const subject = {
    id: 'cgroup-freezer',
    title: 'Freezing and killing groups',
    meaning: 'all processes of a sandbox stop or end together',
  }
  // The root group has neither file, and child groups get them only once they exist. So check that the root is
  // writable.
  const unifiedHasIt = unified !== undefined && (await isWritable(unified.path))
  if (unifiedHasIt) return ok(subject, `v2 at ${unified.path} (cgroup.freeze, cgroup.kill)`)
  const mend = 'Mount the v2 hierarchy and make it writable: `mount -t cgroup2 none /sys/fs/cgroup/unified`.'
  return v1.includes('freezer')
    ? warn(subject, 'only the v1 freezer, which can miss a process while it is forked', mend)
    : fail(subject, 'neither a writable v2 hierarchy nor the v1 freezer', mend)
}

async function readCgroupMounts(): Promise<CgroupMounts> {
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' '))
  const unifiedPath = mounts.find((fields) => fields[2] === 'cgroup2')?.[1]
  const v1 = mounts
    .filter((fields) => fields[2] === 'cgroup')
    .flatMap((fields) => fields[3]?.split(',') ?? [])
  const known = new Set(['memory', 'cpu', 'cpuacct', 'cpuset', 'pids', 'freezer', 'blkio', 'devices'])
  return {
    unified: unifiedPath === undefined ? undefined : await readUnified(unifiedPath),
    v1: v1.filter((option) => known.has(option)),
  }
}

async function readUnified(path: string) {
  // Without this file there are no controllers: the check says so.
  const text = await readFile(join(path, 'cgroup.controllers'), 'utf8').catch(() => '')
  return { path, controllers: text.trim().split(/\s+/).filter(Boolean) }
}

function isWritable(path: string): Promise<boolean> {
  return access(join(path, 'cgroup.procs'), 2).then(
    () => true,
    () => false,
  )
}
