import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newLayerId, newSandboxId, newSnapshotId } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { FailureLog } from '../host/failure-log.ts'
import { Layout } from '../host/layout.ts'
import { encodeManifest, type Manifest } from './manifest.ts'
import { StorageMeter } from './measure-storage.ts'
import type { SnapshotStore } from './snapshot-store.ts'

test('StorageMeter reports a layer that it cannot measure, and not one that was collected', async () => {
  const root = await mkdtemp(join(tmpdir(), 'dormouse-measure-'))
  try {
    const layout = new Layout(root, root)
    const [whole, broken, collected] = [newLayerId(), newLayerId(), newLayerId()]
    await mkdir(layout.layer(whole), { recursive: true })
    await writeFile(join(layout.layer(whole), 'file'), Buffer.alloc(8192))
    await writeFile(layout.layer(broken), 'not a directory')
    const id = newSnapshotId()
    await mkdir(layout.snapshot(id).dir, { recursive: true })
    const manifest = {
      ...{
        formatVersion: 2,
        kind: 'files',
        id,
        sandboxId: newSandboxId(),
        createdAt: new Date().toISOString(),
      },
      ...{ template: { name: 'python', hash: 'x' }, layers: [whole, broken, collected], volumes: [] },
      ...{ limits: { memoryBytes: 2 ** 30, cpus: 1, pids: 512 }, bytes: { images: 0, memory: 0 } },
    } as unknown as Manifest
    await writeFile(layout.snapshot(id).manifest, encodeManifest(manifest))
    const store = { ids: async () => [id] } as unknown as SnapshotStore
    const failures = new FailureLog()
    const { totalBytes } = await new StorageMeter(layout, store, failures).measure()
    expect(totalBytes).toBeGreaterThanOrEqual(8192)
    expect(failures.counts).toEqual(new Map([['measurement', 1]]))
  } finally {
    await rm(root, { recursive: true })
  }
})
