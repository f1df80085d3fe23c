import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newLayerId, newSnapshotId } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { FailureLog } from '../host/failure-log.ts'
import { Layout } from '../host/layout.ts'
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
    const manifest = { id: newSnapshotId(), layers: [whole, broken, collected] }
    const store = { list: async () => [manifest] } as unknown as SnapshotStore
    const failures = new FailureLog()
    const { totalBytes } = await new StorageMeter(layout, store, failures).measure()
    expect(totalBytes).toBeGreaterThanOrEqual(8192)
    expect(failures.counts).toEqual(new Map([['measurement', 1]]))
  } finally {
    await rm(root, { recursive: true })
  }
})
