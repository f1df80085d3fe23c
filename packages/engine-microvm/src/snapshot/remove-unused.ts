import { readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { isBurrowId, isSnapshotId } from '@dormouse/contracts'
import { findRecord } from '../burrow/burrow-record.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { type Base, readManifest } from '../storage/manifest.ts'

/** A template that is built again, or deleted, is often used again within days. */
const UNUSED_MS = 7 * 24 * 3_600_000

/**
 * Removes booted templates and their disks that no snapshot and no burrow refers to, a week after their last use.
 * Pre: no burrow is being made.
 */
export async function removeUnused(
  host: Pick<MicrovmHost, 'layout' | 'toolsDisk' | 'kernels'>,
  nowMs = Date.now(),
): Promise<void> {
  const { layout } = host
  // Templates that other servers use as well: their snapshots are not known here.
  if (dirname(layout.snapshotsDir) !== dirname(layout.disksDir)) return
  const used = await basesInUse(host)
  // A manifest that cannot be read may refer to anything.
  if (used === undefined) return
  const isOld = async (path: string) => nowMs - (await stat(path)).mtimeMs > UNUSED_MS
  const builds = new Set(used.map(({ build }) => build))
  for (const name of await readdir(layout.templatesDir)) {
    const { dir, manifest } = layout.template(name)
    const base = await readManifest(manifest, name).then(
      (read) => read.base,
      () => undefined,
    )
    if (builds.has(name) || !(await isOld(base === undefined ? dir : manifest))) {
      if (base !== undefined) used.push(base)
    } else await rm(dir, { recursive: true, force: true })
  }
  const kept = new Set(used.flatMap(({ rootDisk, toolsDisk }) => [rootDisk, toolsDisk]))
  const initrds = [...host.kernels.values()].map(({ initrd }) => initrd)
  for (const path of [host.toolsDisk, ...initrds]) kept.add(basename(path))
  for (const name of await readdir(layout.disksDir)) {
    const path = join(layout.disksDir, name)
    if (/^(root|tools|initrd)-/.test(name) && !kept.has(name) && (await isOld(path))) await rm(path)
  }
}

async function basesInUse({ layout }: Pick<MicrovmHost, 'layout'>): Promise<Base[] | undefined> {
  const bases: Base[] = []
  for (const id of (await readdir(layout.snapshotsDir)).filter(isSnapshotId)) {
    const manifest = await readManifest(layout.snapshot(id).manifest, id).catch(() => undefined)
    if (manifest === undefined) return undefined
    bases.push(manifest.base)
  }
  for (const id of (await readdir(layout.burrowsDir)).filter(isBurrowId)) {
    const record = await findRecord(layout.burrow(id).record)
    if (record === undefined) return undefined
    bases.push(record.base)
  }
  return bases
}
