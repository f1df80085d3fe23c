import { statSync } from 'node:fs'
import { link, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { FileCache } from '../host/file-cache.ts'
import { snapshotPaths } from '../host/layout.ts'
import { type FullManifest, type Manifest, readManifest } from '../storage/manifest.ts'
import { UNFINISHED } from '../storage/publish-snapshot.ts'
import type { Template } from '../template/template-store.ts'

type MemoryFile = FullManifest['memory'][number]

/** Templates in use; a manifest beyond this is only read again. */
const CACHED_MANIFESTS = 64
const manifests = new FileCache<Manifest>(CACHED_MANIFESTS)

/**
 * Links the memory files of a snapshot that this host has with its template, so that they need not be fetched. Returns
 * their names. A file is the same one when name, size, time and checksum are: names are never used again.
 */
export async function linkTemplateMemory(
  template: Template,
  memory: readonly MemoryFile[],
  into: string,
): Promise<ReadonlySet<string>> {
  const linked = new Set<string>()
  const parent = join(dirname(template.rootfs), 'snapshots')
  // Missing until the first snapshot of the template is made.
  const names = await readdir(parent).catch(() => [])
  for (const name of names.filter((one) => !one.startsWith(UNFINISHED))) {
    const paths = snapshotPaths(join(parent, name))
    const found = await manifests
      .get(paths.manifest, () => readManifest(paths.manifest))
      .catch(() => undefined)
    if (found?.kind !== 'full') continue
    for (const file of memory) {
      const path = join(paths.memory, file.name)
      if (!found.memory.some((other) => isSame(other, file)) || !isUntouched(path, file)) continue
      // It may be removed meanwhile, or be on another file system. Then it is fetched.
      const isLinked = await link(path, join(into, file.name)).then(
        () => true,
        () => false,
      )
      if (isLinked) linked.add(file.name)
    }
  }
  return linked
}

function isSame(one: MemoryFile, other: MemoryFile): boolean {
  const fields = ['name', 'sizeBytes', 'checksum', 'mtimeNs'] as const
  return fields.every((field) => one[field] === other[field])
}

/** A restore reads a file with another time as a whole. That takes longer than fetching what is needed. */
function isUntouched(path: string, { sizeBytes, mtimeNs }: MemoryFile): boolean {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true })
  return found !== undefined && Number(found.size) === sizeBytes && found.mtimeNs === mtimeNs
}
