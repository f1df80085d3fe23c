import { readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import type { FailureLog } from '../host/failure-log.ts'
import type { BurrowPaths, Layout } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { findFirstProcess, killFirstProcess, waitForEnd } from '../process/first-process.ts'

/** A killed process that waits for a slow disk can take a while to end. */
const END_TIMEOUT_MS = 20_000

/** Prefix of directories of burrows that are being removed. */
const REMOVED = '.removing-'

/**
 * Ends the processes of a burrow and removes all of it. Every part may be missing already, so this can be called again
 * after it was cut off half way. The directory goes last: as long as it exists, the next server knows that something is
 * left.
 */
export async function removeBurrow(paths: BurrowPaths, hierarchies: Hierarchies): Promise<void> {
  const cgroup = new BurrowCgroup(hierarchies, paths.cgroup)
  await endProcesses(paths, cgroup)
  await cgroup.remove()
  await removeRun(paths.run)
  // Renamed first: from a burrow whose files are half removed, the next server would save the rest.
  const removed = join(dirname(paths.dir), `${REMOVED}${paths.id}`)
  await rename(paths.dir, removed).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
  })
  // The sandbox made these files: rm(1) handles names and depths that path-based removal does not.
  await removeTree(removed)
  await rm(paths.spareMark, { force: true })
}

/** It holds files of dormouse-init and those that show limits. If it holds more, `removeTree` handles any tree. */
async function removeRun(run: string): Promise<void> {
  await rm(run, { recursive: true, force: true }).catch(() => removeTree(run))
}

/** Finishes removals that were cut off, as far as possible. */
export async function removeUnfinishedRemovals({ burrowsDir }: Layout, failures: FailureLog): Promise<void> {
  for (const name of await readdir(burrowsDir)) {
    if (!name.startsWith(REMOVED)) continue
    await removeTree(join(burrowsDir, name)).catch((error: unknown) =>
      failures.report('removal', error, { directory: name }, 'the rest of a burrow was not removed'),
    )
  }
}

/** Post: nothing in the burrow runs. Its files are still there. */
export async function endProcesses(paths: BurrowPaths, cgroup: BurrowCgroup): Promise<void> {
  const first = await findFirstProcess(paths.pidFile)
  await cgroup.kill()
  // With PID 1 the kernel ends every process of the pid namespace; their mounts go with the last one.
  if (first !== undefined) {
    await killFirstProcess(first)
    await waitForEnd(first, END_TIMEOUT_MS)
  }
}
