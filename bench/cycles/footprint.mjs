import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BurrowCgroup } from '../../packages/engine-linux/dist/cgroup/burrow-cgroup.js'
import { findHierarchies } from '../../packages/engine-linux/dist/cgroup/find-hierarchies.js'
import { blockBytes } from '../sleep/disk.mjs'

/** Measures what this engine uses on the machine. Ignores other engines that may run beside it. */
export async function footprint({ layout }) {
  const stateDir = dirname(layout.burrowsDir)
  const cgroups = await cgroupsBelow(layout)
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n')
  const { rss } = process.memoryUsage()
  return {
    processes: (await Promise.all(cgroups.map(memberPids))).reduce(union, new Set()).size,
    children: (await childPids()).length,
    cgroups: cgroups.length,
    mounts: mounts.filter((line) => line.includes(layout.runDir) || line.includes(stateDir)).length,
    descriptors: (await readdir('/proc/self/fd')).length,
    rssBytes: rss,
    burrowDirectories: (await readdir(layout.burrowsDir)).length,
    runDirectories: (await readdir(layout.runDir)).length,
    snapshots: (await readdir(layout.snapshotsDir)).length,
    layers: (await readdir(layout.layersDir)).length,
    diskBytes: await blockBytes(stateDir),
  }
}

async function cgroupsBelow({ cgroupName }) {
  const { directories } = new BurrowCgroup(await findHierarchies(), cgroupName)
  const below = []
  for (const directory of directories.filter((path) => existsSync(path))) {
    for (const entry of await readdir(directory, { withFileTypes: true }))
      if (entry.isDirectory()) below.push(join(directory, entry.name))
  }
  return below
}

async function memberPids(cgroup) {
  const text = await readFile(join(cgroup, 'cgroup.procs'), 'utf8').catch(() => '')
  return new Set(text.split('\n').filter(Boolean))
}

function union(one, other) {
  return new Set([...one, ...other])
}

/** Includes zombies. */
async function childPids() {
  const text = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')
  return text.split(' ').filter(Boolean)
}
