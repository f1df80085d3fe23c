import { createHash } from 'node:crypto'
import type { SnapshotId } from '@dormouse/contracts'
import type { FileTree } from '@dormouse/engine'
import { whileReading } from '../storage/snapshot-readers.ts'
import { SCRATCH } from '../template/scratch-template.ts'
import { getTemplateBuild } from '../template/template-store.ts'
import type { SnapshotEngine } from './snapshot-engine.ts'

/** See `EngineFiles.lendFiles`. */
export async function lendFiles<Value>(
  { host: { layout }, store, dataDir }: SnapshotEngine,
  id: SnapshotId,
  use: (tree: FileTree) => Promise<Value>,
): Promise<Value> {
  return whileReading(layout.snapshot(id).dir, async () => {
    const { manifest } = await store.get(id)
    await store.checkLayers(manifest)
    const { name, rootfs, manifest: template } = await getTemplateBuild(dataDir, manifest.template)
    const { uidBase, uidCount, description } = template
    const content = JSON.stringify([manifest.template, manifest.layers])
    return use({
      key: createHash('sha256').update(content).digest('hex').slice(0, 16),
      template: name,
      directories: [...manifest.layers.map((layer) => layout.layer(layer)), rootfs],
      ...{ uidBase, uidCount },
      preload: description.preload,
      isImage: name === SCRATCH,
      image: manifest.image,
    })
  })
}
