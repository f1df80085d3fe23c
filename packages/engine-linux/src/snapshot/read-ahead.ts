import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { findAheadAddon } from '../host/ahead-addon.ts'
import type { BurrowPaths, SnapshotPaths } from '../host/layout.ts'
import type { ImageThreads } from '../image-thread/image-threads.ts'
import type { Template } from '../template/template-store.ts'

/**
 * Begins to read into the page cache what the last wake touched, and then the rest of the memory. Returns at once, and
 * does nothing when the cache is warm.
 */
export function startReadAhead(paths: SnapshotPaths, template: Template): void {
  findAheadAddon()?.readAhead(paths.ahead, paths.memory, paths.images, template.rootfs)
}

/** Keeps with a snapshot which memory the last wake of its processes touched, if that is known. */
export async function keepTouched(burrow: BurrowPaths, snapshot: SnapshotPaths): Promise<void> {
  await link(burrow.touched, snapshot.touched).catch(() => {})
}

/** Gives a burrow the list of the snapshot that it was made from, until it has its own. */
export async function inheritTouched(snapshot: SnapshotPaths, burrow: BurrowPaths): Promise<void> {
  await link(snapshot.touched, burrow.touched).catch(() => {})
}

/** Makes the list of file ranges that `startReadAhead` uses. Its files may be newer than an earlier list. */
export async function makeReadAhead(paths: SnapshotPaths, imageThreads: ImageThreads): Promise<void> {
  const touched = await readFile(paths.touched, 'utf8').catch(() => undefined)
  if (touched === undefined) return
  const imagesDir = paths.images
  const list = await imageThreads.use((thread) => thread.run('listAhead', { imagesDir, touched }))
  try {
    await writeFile(`${paths.ahead}.new`, list, { mode: 0o600 })
    await rename(`${paths.ahead}.new`, paths.ahead)
  } catch {
    // The snapshot was deleted, or the disk is full.
    await rm(`${paths.ahead}.new`, { force: true })
  }
}

/** The list of file ranges that the last wake touched; empty when it is not known. */
export async function readAheadList(paths: SnapshotPaths, imageThreads: ImageThreads): Promise<string> {
  const read = () => readFile(paths.ahead, 'utf8').catch(() => undefined)
  const list = await read()
  if (list !== undefined) return list
  await makeReadAhead(paths, imageThreads).catch(() => {})
  return (await read()) ?? ''
}
