import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BurrowId, hasErrorCode, isBurrowId, type SnapshotId } from '@dormouse/contracts'
import type { AdoptedBurrows } from '@dormouse/engine'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { Hierarchies } from '../cgroup/find-hierarchies.ts'
import { readManifest } from '../snapshot/manifest.ts'
import { takeFiles } from '../snapshot/take-files.ts'
import { type BurrowRecord, findRecord } from './burrow-record.ts'
import { type FirstProcess, findFirstProcess, isAlive, readEnd } from './first-process.ts'
import { waitForDump, wasLeftStopped } from './interrupted-dump.ts'
import type { BurrowPaths, Layout } from './layout.ts'
import { LinuxBurrow } from './linux-burrow.ts'
import { endProcesses, removeBurrow, removeRemains } from './remove-burrow.ts'
import { undoTaking } from './taking.ts'

type Lost = AdoptedBurrows['lost'][number]

/**
 * Takes over live burrows and removes the rest: dead ones, whose files are saved before, and those whose start was cut off before
 * anybody knew of them. One whose record cannot be read is left alone, for who can.
 */
export async function adoptBurrows(
  layout: Layout,
  hierarchies: Hierarchies,
): Promise<{ burrows: LinuxBurrow[]; lost: Lost[] }> {
  const burrows: LinuxBurrow[] = []
  const lost: Lost[] = []
  await removeRemains(layout)
  for (const id of await leftBehind(layout, hierarchies)) {
    const paths = layout.burrow(id)
    const record = await findRecord(paths.record).catch(() => 'unreadable' as const)
    if (record === 'unreadable') continue
    const first = await findFirstProcess(paths.pidFile)
    if (record?.state === 'ready' && first !== undefined) {
      const burrow = new LinuxBurrow({ record, paths, first, hierarchies })
      if (await takeOver(burrow, first)) {
        burrows.push(burrow)
        continue
      }
      burrow.release()
    }
    if (record?.state === 'ready') lost.push(await saveWhatIsLeft(layout, hierarchies, record))
    else await removeIfPossible(paths, hierarchies)
  }
  return { burrows, lost }
}

/** Lets one continue whose snapshot was cut off. False when it is the past of a finished snapshot, or has ended. */
async function takeOver(burrow: LinuxBurrow, first: FirstProcess): Promise<boolean> {
  await waitForDump(burrow)
  const wasBeingSaved = existsSync(burrow.paths.taking)
  // Where it cannot be told, the files stay; what runs must not change them.
  const isOver = await undoTaking(burrow.paths).then(
    (finished) => finished !== undefined,
    () => true,
  )
  if (isOver) return false
  if (!(await isAlive(first))) return false
  if (await wasLeftStopped(burrow)) await burrow.goOn({ areStopped: true })
  // It was awake, and is frozen for the dump only.
  else if (wasBeingSaved) await burrow.thaw()
  // Its agent is not asked: a silent one would delay the server, and a slow one would lose its sandbox. The watch notices a dying one.
  void burrow.watch()
  return true
}

/** What cannot be removed, because something of the host holds it, must not keep the rest from coming back. */
async function removeIfPossible(paths: BurrowPaths, hierarchies: Hierarchies): Promise<void> {
  await removeBurrow(paths, hierarchies).catch(() => {})
}

/** Of a burrow that has ended. When there is no room for its files, or for another reason, they stay where they are, until the next time. */
async function saveWhatIsLeft(layout: Layout, hierarchies: Hierarchies, record: BurrowRecord): Promise<Lost> {
  const { id, sandboxId } = record
  const paths = layout.burrow(id)
  const end = await readEnd(paths.endFile)
  try {
    await endProcesses(paths, new BurrowCgroup(hierarchies, paths.cgroup))
    const finished = await undoTaking(paths)
    const take = async () => (await takeFiles(layout, { record, paths, keepsFiles: false })).manifest.id
    const snapshotId = finished ?? (await take())
    const kind = await findKind(layout, snapshotId)
    await removeIfPossible(paths, hierarchies)
    if (kind === 'full') return { id, sandboxId, end: { reason: 'stored', snapshotId } }
    return { id, sandboxId, end, ...(kind === 'files' && { filesSnapshotId: snapshotId }) }
  } catch {
    return { id, sandboxId, end }
  }
}

/** undefined for a template's own snapshot, which is no sandbox's: nobody waits for what is left. */
async function findKind(layout: Layout, id: SnapshotId): Promise<'full' | 'files' | undefined> {
  try {
    return (await readManifest(layout.snapshot(id).manifest)).kind
  } catch (error) {
    if (hasErrorCode(error, 'not_found')) return undefined
    throw error
  }
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
