import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BurrowId, isBurrowId } from '@dormouse/contracts'
import type { AdoptedBurrows } from '@dormouse/engine'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { findRecord } from './burrow-record.ts'
import { findFirstProcess, readEnd } from './first-process.ts'
import { waitForDump, wasLeftStopped } from './interrupted-dump.ts'
import type { Layout } from './layout.ts'
import { answers, LinuxBurrow } from './linux-burrow.ts'
import { removeBurrow } from './remove-burrow.ts'
import { undoTaking } from './taking.ts'

type Lost = AdoptedBurrows['lost'][number]

/** Takes over live burrows and removes the rest: dead ones, and those whose start was cut off before anybody knew of them. */
export async function adoptBurrows(
  layout: Layout,
  hierarchies: Hierarchies,
): Promise<{ burrows: LinuxBurrow[]; lost: Lost[] }> {
  const burrows: LinuxBurrow[] = []
  const lost: Lost[] = []
  for (const id of await leftBehind(layout, hierarchies)) {
    const paths = layout.burrow(id)
    const record = await findRecord(paths.record)
    const first = await findFirstProcess(paths.pidFile)
    if (record?.state === 'ready' && first !== undefined) {
      const burrow = new LinuxBurrow({ record, paths, first, hierarchies })
      await waitForDump(burrow)
      const snapshotId = await undoTaking(paths)
      if (snapshotId !== undefined) {
        burrow.release()
        await removeBurrow(paths, hierarchies)
        lost.push({ id, sandboxId: record.sandboxId, end: { reason: 'stored', snapshotId } })
        continue
      }
      if (await wasLeftStopped(burrow)) await burrow.goOn({ areStopped: true })
      if (await answers(burrow, first)) {
        burrows.push(burrow)
        continue
      }
      burrow.release()
    }
    const end = await readEnd(paths.endFile)
    await removeBurrow(paths, hierarchies)
    if (record?.state === 'ready') lost.push({ id, sandboxId: record.sandboxId, end })
  }
  return { burrows, lost }
}

/** Every burrow id that has a directory, a run directory or a cgroup. */
async function leftBehind(layout: Layout, { v1, v2 }: Hierarchies): Promise<Set<BurrowId>> {
  const mounts = [...v1.values(), ...(v2 === undefined ? [] : [v2.path])]
  const places = [
    layout.burrowsDir,
    layout.sparesDir,
    layout.runDir,
    ...mounts.map((mount) => join(mount, layout.cgroupName)),
  ]
  const ids = new Set<BurrowId>()
  for (const place of places) {
    for (const name of await readdir(place).catch(() => [])) if (isBurrowId(name)) ids.add(name)
  }
  return ids
}
