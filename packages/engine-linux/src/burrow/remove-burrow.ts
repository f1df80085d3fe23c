import { readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { removeTree } from '../host/publish-directory.ts'
import { findFirstProcess, killFirstProcess, waitForEnd } from './first-process.ts'
import type { BurrowPaths, Layout } from './layout.ts'

/** A killed process that waits for a slow disk can take a while to go. */
const END_TIMEOUT_MS = 20_000

/** Prefix of directories that are no burrows any more. */
const REMOVED = '.removing-'

/**
 * Ends whatever lives in a burrow and removes all of it. Every part may be missing already, so it can be called again
 * after it was cut off half way. Its directory goes last: while that exists the next server knows that there is work left.
 */
export async function removeBurrow(paths: BurrowPaths, hierarchies: Hierarchies): Promise<void> {
  const cgroup = new BurrowCgroup(hierarchies, paths.cgroup)
  await endProcesses(paths, cgroup)
  await cgroup.remove()
  await removeRun(paths.run)
  // In one step: one that is removed halfway would look as if its processes had ended, and what is left of its files be saved.
  const removed = join(dirname(paths.dir), `${REMOVED}${paths.id}`)
  await rename(paths.dir, removed).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  // The sandbox made these files: rm(1) copes with names and depths that path-based removal does not.
  await removeTree(removed)
  await rm(paths.spareMark, { force: true })
}

/** It holds the two files that dormouse-init makes; whatever else is there goes the slower way, which copes with any tree. */
async function removeRun(run: string): Promise<void> {
  await rm(run, { recursive: true, force: true }).catch(() => removeTree(run))
}

/** What removals that were cut off have left, as far as it can be removed. */
export async function removeRemains({ burrowsDir }: Layout): Promise<void> {
  for (const name of await readdir(burrowsDir))
    if (name.startsWith(REMOVED)) await removeTree(join(burrowsDir, name)).catch(() => {})
}

/** Post: nothing in the burrow runs any more. Its files are still there. */
export async function endProcesses(paths: BurrowPaths, cgroup: BurrowCgroup): Promise<void> {
  const first = await findFirstProcess(paths.pidFile)
  await cgroup.kill()
  // With PID 1 the kernel ends every process of the pid namespace; their mounts go with the last one.
  if (first !== undefined) {
    await killFirstProcess(first)
    await waitForEnd(first, END_TIMEOUT_MS)
  }
}
