import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

export type ControllerName = 'memory' | 'cpu' | 'cpuacct' | 'pids' | 'freezer'

export interface Hierarchies {
  /** Mount point of each v1 controller. */
  readonly v1: ReadonlyMap<ControllerName, string>
  /** The v2 mount, if there is one, and the controllers that v1 does not use. */
  readonly v2: { readonly path: string; readonly controllers: ReadonlySet<string> } | undefined
}

const V1_CONTROLLERS: readonly ControllerName[] = ['memory', 'cpu', 'cpuacct', 'pids', 'freezer']

export async function findHierarchies(): Promise<Hierarchies> {
  const mounts = parseMounts(await readFile('/proc/self/mountinfo', 'utf8'))
  const v1 = new Map<ControllerName, string>()
  for (const mount of mounts) {
    if (mount.type !== 'cgroup') continue
    const options = mount.options.split(',')
    for (const name of V1_CONTROLLERS) if (options.includes(name) && !v1.has(name)) v1.set(name, mount.path)
  }
  const unified = mounts.find((mount) => mount.type === 'cgroup2')
  if (unified === undefined) return { v1, v2: undefined }
  const controllers = await readFile(join(unified.path, 'cgroup.controllers'), 'utf8')
  return { v1, v2: { path: unified.path, controllers: new Set(controllers.trim().split(/\s+/)) } }
}

function parseMounts(mountinfo: string) {
  const mounts: { path: string; type: string; options: string }[] = []
  for (const line of mountinfo.split('\n')) {
    // Optional fields end with a lone dash; what follows is type, source and the super block's options.
    const [before, after] = line.split(' - ')
    const path = before?.split(' ')[4]
    const [type, , options] = after?.split(' ') ?? []
    if (path !== undefined && type !== undefined) mounts.push({ path, type, options: options ?? '' })
  }
  return mounts
}
