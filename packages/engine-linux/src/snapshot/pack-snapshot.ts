import { existsSync } from 'node:fs'
import { link, mkdir, readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { newSnapshotId } from '@dormouse/contracts'
import { GUARD_IN_TOOLS } from '../guest-tools.ts'
import { type SnapshotPaths, snapshotPaths } from '../host/layout.ts'
import { removeTree } from '../host/publish-directory.ts'
import { PageWorker } from '../image/page-worker.ts'
import { describeFiles } from '../storage/describe-files.ts'
import { encodeManifest, type FullManifest } from '../storage/manifest.ts'
import { publishSnapshot, UNFINISHED } from '../storage/publish-snapshot.ts'
import type { Template } from '../template/template-store.ts'
import type { SnapshotHost } from './snapshot-host.ts'

/**
 * Publishes a version of a template's snapshot that restores faster: its memory files also hold the libraries of its
 * processes, see image/pack-libraries.ts. On failure nothing is published.
 */
export async function packSnapshot(
  { layout, imageThreads }: SnapshotHost,
  { template, toolsDir }: { template: Template; toolsDir: string },
  { from, manifest, into }: { from: SnapshotPaths; manifest: FullManifest; into: string },
): Promise<void> {
  const work = snapshotPaths(join(dirname(into), `${UNFINISHED}${newSnapshotId()}`))
  await mkdir(work.dir, { mode: 0o700 })
  try {
    await using worker = new PageWorker()
    const changed = await Promise.all(manifest.layers.map((layer) => readdir(layout.layer(layer))))
    const pack = {
      ...{ from, to: work, memoryId: `${manifest.id}p`, rootfs: template.rootfs },
      ...{ changed: changed.flat(), guard: { hostPath: join(toolsDir, GUARD_IN_TOOLS) } },
    }
    await imageThreads.use((thread) => thread.run('packLibraries', pack, worker))
    if (existsSync(from.carried)) await link(from.carried, work.carried)
    const packed = { ...manifest, ...(await describeFiles(work, worker)) }
    await writeFile(work.manifest, encodeManifest(packed), { flag: 'wx', mode: 0o600 })
    await worker.sync([work.dir])
    await publishSnapshot(work.dir, into)
  } catch (error) {
    await removeTree(work.dir)
    throw error
  }
}
