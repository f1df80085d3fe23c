import { execFileSync } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { findHierarchies } from '../../packages/engine-linux/dist/cgroup/find-hierarchies.js'
import { findCriu } from '../../packages/engine-linux/dist/criu/find-criu.js'
import { GUARD_IN_TOOLS } from '../../packages/engine-linux/dist/guest-tools.js'
import { FailureLog } from '../../packages/engine-linux/dist/host/failure-log.js'
import { ImageThreads } from '../../packages/engine-linux/dist/image-thread/image-threads.js'
import { Dumper } from '../../packages/engine-linux/dist/snapshot/dumper.js'
import { takeSnapshot } from '../../packages/engine-linux/dist/snapshot/take-snapshot.js'
import { UnsyncedSnapshots } from '../../packages/engine-linux/dist/storage/unsynced-snapshots.js'
import { VerifiedSnapshots } from '../../packages/engine-linux/dist/storage/verify-snapshot.js'

/**
 * Saves a burrow the way stock CRIU does: its memory stays in CRIU's own page images, and every restore copies all of
 * it. The engine does everything else as usual, and restores the result like any other snapshot, with the same call
 * and flags.
 */
export async function takeStockSnapshot({ layout, dataDir }, burrow) {
  const { cgroupName } = layout
  const [criu, hierarchies, failures] = [await findCriu(dataDir), await findHierarchies(), new FailureLog()]
  const dumper = new Dumper(criu, { hierarchies, cgroupName, failures, ownCgroups: new Set() })
  const imageThreads = new ImageThreads()
  try {
    const toolsDir = await toolsWithoutGuard(layout)
    const verified = new VerifiedSnapshots()
    const unsynced = new UnsyncedSnapshots(layout, failures)
    const host = { layout, hierarchies, failures, imageThreads, verified, unsynced }
    const { manifest, leftover } = await takeSnapshot(host, { burrow, dumper, toolsDir })
    await rm(leftover, { recursive: true, force: true })
    return manifest
  } finally {
    await dumper[Symbol.asyncDispose]()
    await imageThreads[Symbol.asyncDispose]()
  }
}

/**
 * The engine maps memory only for processes that have the guard loaded. With this table, which is too small to be
 * valid, it finds the guard in none.
 */
async function toolsWithoutGuard(layout) {
  const directory = join(layout.runDir, 'tools-without-guard')
  const library = join(directory, GUARD_IN_TOOLS)
  await mkdir(dirname(library), { recursive: true })
  const source = join(directory, 'guard.c')
  await writeFile(source, 'char dormouse_guard_table[8] = "nothing";\n')
  execFileSync('gcc', ['-shared', '-fPIC', '-o', library, source])
  return directory
}
