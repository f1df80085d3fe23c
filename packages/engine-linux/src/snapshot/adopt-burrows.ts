import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type BurrowId, hasErrorCode, isBurrowId, type SnapshotId } from '@dormouse/contracts'
import type { LostBurrow } from '@dormouse/engine'
import type { BurrowHost } from '../burrow/burrow-host.ts'
import { type BurrowRecord, findRecord } from '../burrow/burrow-record.ts'
import { LinuxBurrow } from '../burrow/linux-burrow.ts'
import { endProcesses, removeBurrow, removeUnfinishedRemovals } from '../burrow/remove-burrow.ts'
import { BurrowCgroup } from '../cgroup/burrow-cgroup.ts'
import type { BurrowPaths, Layout } from '../host/layout.ts'
import { closeOutsideConnections } from '../network/open-gate.ts'
import { findFirstProcess, isAlive, readEnd } from '../process/first-process.ts'
import { readManifest } from '../storage/manifest.ts'
import { waitForDump, wasLeftStopped } from './interrupted-dump.ts'
import { undoSave } from './save-intent.ts'
import { takeFiles } from './take-files.ts'

type AdoptHost = Pick<BurrowHost, 'layout' | 'hierarchies' | 'failures'>

/**
 * Takes over the burrows that are alive and removes the others: burrows that have ended, after their files are saved,
 * and burrows whose start was cut off. `undone` are snapshots that a power cut undid. A burrow whose record cannot be
 * read stays as it is: a later version may read it.
 */
export async function adoptBurrows(
  host: AdoptHost,
  { undone }: { undone: ReadonlySet<SnapshotId> },
): Promise<{ burrows: LinuxBurrow[]; lost: LostBurrow[] }> {
  const { layout, failures } = host
  const burrows: LinuxBurrow[] = []
  const lost: LostBurrow[] = []
  await removeUnfinishedRemovals(layout, failures)
  for (const id of await listBurrows(host)) {
    const paths = layout.burrow(id)
    const record = await findRecord(paths.record).catch((error: unknown) => {
      failures.report('adoption', error, { burrowId: id }, 'the record of a burrow cannot be read')
      return 'unreadable' as const
    })
    if (record === 'unreadable') continue
    const adopted = await adoptBurrow(host, paths, record)
    const isUndone = record?.parent !== undefined && undone.has(record.parent)
    if (adopted !== undefined) burrows.push(adopted)
    else if (record?.state === 'ready' && isUndone) lost.push(await removeUndone(host, record))
    else if (record?.state === 'ready') lost.push(await saveFilesAndRemove(host, record))
    else await removeIfPossible(host, paths)
  }
  return { burrows, lost }
}

/** Undefined when the burrow is not alive, or a finished snapshot has its files. */
async function adoptBurrow(
  host: AdoptHost,
  paths: BurrowPaths,
  record: BurrowRecord | undefined,
): Promise<LinuxBurrow | undefined> {
  const first = await findFirstProcess(paths.pidFile)
  if (record?.state !== 'ready' || first === undefined) return undefined
  const burrow = new LinuxBurrow(host, { record, paths, first })
  if (await resumeAfterCrash(host, burrow)) {
    await closeConnections(host, burrow)
    return burrow
  }
  burrow.release()
  return undefined
}

/** The other ends of its connections died with the last server. One that slept may not have noticed. */
async function closeConnections(
  { failures }: AdoptHost,
  { first, sandboxId, id }: LinuxBurrow,
): Promise<void> {
  await closeOutsideConnections(first).catch((error: unknown) =>
    failures.report(
      'network',
      error,
      { sandboxId, burrowId: id },
      'connections of an adopted burrow were not closed',
    ),
  )
}

/** Lets a burrow continue whose snapshot was cut off. False when it has ended, or a finished snapshot has its files. */
async function resumeAfterCrash({ failures }: AdoptHost, burrow: LinuxBurrow): Promise<boolean> {
  await waitForDump(burrow)
  const wasBeingSaved = existsSync(burrow.paths.saveIntent)
  try {
    if ((await undoSave(burrow.paths)) !== undefined) return false
  } catch (error) {
    // Its files stay where they are, so the burrow must not run on and change them.
    const fields = { sandboxId: burrow.sandboxId, burrowId: burrow.id }
    failures.report('adoption', error, fields, 'an unfinished snapshot of a burrow was not undone')
    return false
  }
  if (!(await isAlive(burrow.first))) return false
  if (await wasLeftStopped(burrow)) await burrow.resumeAfterFailedSave({ areStopped: true })
  // It was awake, and is frozen for the dump only.
  else if (wasBeingSaved) await burrow.thaw()
  // Its agent is not asked: a silent one would delay the server, and a slow one would lose its sandbox.
  void burrow.watch()
  return true
}

/** A mount or process of the host may hold a burrow; the other burrows must come back all the same. */
async function removeIfPossible({ hierarchies, failures }: AdoptHost, paths: BurrowPaths): Promise<void> {
  await removeBurrow(paths, hierarchies).catch((error: unknown) =>
    failures.report('removal', error, { burrowId: paths.id }, 'a burrow that has ended was not removed'),
  )
}

/**
 * For a burrow that has ended. When its files cannot be saved, for lack of space for example, they stay for the next
 * server.
 */
async function saveFilesAndRemove(host: AdoptHost, record: BurrowRecord): Promise<LostBurrow> {
  const { layout, hierarchies, failures } = host
  const { id, sandboxId } = record
  const paths = layout.burrow(id)
  const end = await readEnd(paths.endFile)
  try {
    await endProcesses(paths, new BurrowCgroup(hierarchies, paths.cgroup))
    const finished = await undoSave(paths)
    const take = async () => (await takeFiles(layout, { record, paths, keepsFiles: false })).manifest.id
    const snapshotId = finished ?? (await take())
    const kind = await findKind(layout, snapshotId)
    await removeIfPossible(host, paths)
    if (kind === 'full') return { id, sandboxId, end: { reason: 'stored', snapshotId } }
    return { id, sandboxId, end, ...(kind === 'files' && { filesSnapshotId: snapshotId }) }
  } catch (error) {
    failures.report('adoption', error, { sandboxId, burrowId: id }, 'the files of a burrow were not saved')
    return { id, sandboxId, end }
  }
}

/** For a burrow whose files lie on those of a snapshot that a power cut undid: without them they are of no use. */
async function removeUndone(host: AdoptHost, { id, sandboxId }: BurrowRecord): Promise<LostBurrow> {
  const paths = host.layout.burrow(id)
  const end = await readEnd(paths.endFile)
  await removeIfPossible(host, paths)
  return { id, sandboxId, end }
}

/** Undefined for the snapshot of a template, which no sandbox waits for. */
async function findKind(layout: Layout, id: SnapshotId): Promise<'full' | 'files' | undefined> {
  try {
    return (await readManifest(layout.snapshot(id).manifest)).kind
  } catch (error) {
    if (hasErrorCode(error, 'not_found')) return undefined
    throw error
  }
}

/** Every burrow id that has a directory, a run directory or a cgroup. */
async function listBurrows({ layout, hierarchies: { v1, v2 } }: AdoptHost): Promise<Set<BurrowId>> {
  const mounts = [...v1.values(), ...(v2 === undefined ? [] : [v2.path])]
  const places = [
    layout.burrowsDir,
    layout.sparesDir,
    layout.runDir,
    ...mounts.map((mount) => join(mount, layout.cgroupName)),
  ]
  const ids = new Set<BurrowId>()
  for (const place of places) {
    // A place is missing until the first burrow is made.
    for (const name of await readdir(place).catch(() => [])) if (isBurrowId(name)) ids.add(name)
  }
  return ids
}
