import { rm } from 'node:fs/promises'
import {
  BurrowCgroup,
  type FirstProcess,
  killFirstProcess,
  removeTree,
} from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'
import type { MicrovmHost } from '../microvm-host.ts'

/** Ends QEMU and removes everything of a burrow; its directory last, because it says what there is to remove. */
export async function removeBurrow(
  host: MicrovmHost,
  paths: MicrovmBurrowPaths,
  first?: FirstProcess,
): Promise<void> {
  if (first !== undefined) await killFirstProcess(first)
  const cgroup = new BurrowCgroup(host.hierarchies, paths.cgroup)
  await cgroup.kill()
  await cgroup.remove()
  await removeTree(paths.runParent)
  await removeTree(paths.dir)
  await rm(paths.spareMark, { force: true })
}
