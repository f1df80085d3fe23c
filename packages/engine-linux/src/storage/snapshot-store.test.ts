import { mkdir, mkdtemp, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LayerId, SnapshotId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Layout } from '../host/layout.ts'
import { SnapshotStore } from './snapshot-store.ts'
import type { VerifiedSnapshots } from './verify-snapshot.ts'

const [ONE, TWO] = ['sn-aaaaaaaaaaaaaaaa', 'sn-bbbbbbbbbbbbbbbb'] as [SnapshotId, SnapshotId]
const LAYER = 'ly-aaaaaaaaaaaaaaaa' as LayerId

let dir: string
let layout: Layout
let store: SnapshotStore
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'dormouse-store-'))
  layout = new Layout(dir, dir)
  store = new SnapshotStore(layout, {} as VerifiedSnapshots, async () => new Set())
  await mkdir(layout.snapshotsDir, { recursive: true })
})
afterEach(() => rm(dir, { recursive: true }))

async function write(id: SnapshotId, manifest: string): Promise<void> {
  await mkdir(layout.snapshot(id).dir)
  await writeFile(layout.snapshot(id).manifest, manifest)
}

test('the layers of a snapshot are in use, also when its format is unknown', async () => {
  await write(ONE, JSON.stringify({ formatVersion: 99, layers: [LAYER] }))
  expect(await store.findUsedLayers()).toEqual(new Set([LAYER]))
  expect(await store.findUsedLayers(ONE)).toEqual(new Set())
})

test.each(['', '{"formatVersion":2', '{"formatVersion":2,"layers":"none"}'])(
  'every layer may be in use when a manifest is %j',
  async (text) => {
    await write(ONE, JSON.stringify({ formatVersion: 2, layers: [LAYER] }))
    await write(TWO, text)
    expect(await store.findUsedLayers()).toBeUndefined()
  },
)

test('every layer may be in use when a manifest is missing', async () => {
  await mkdir(layout.snapshot(ONE).dir)
  expect(await store.findUsedLayers()).toBeUndefined()
})

test('snapshots that are left out of a list are not read', async () => {
  await write(ONE, '')
  expect(await store.list(new Set([ONE]))).toEqual([])
})

test('a manifest is read again when it was replaced, and only then', async () => {
  const [other, third] = ['ly-bbbbbbbbbbbbbbbb', 'ly-cccccccccccccccc'] as [LayerId, LayerId]
  const text = (layer: LayerId) => JSON.stringify({ formatVersion: 2, layers: [layer] })
  const { manifest } = layout.snapshot(ONE)
  await write(ONE, text(LAYER))
  await utimes(manifest, 1000, 1000)
  expect(await store.findUsedLayers()).toEqual(new Set([LAYER]))
  // In place and with the time of before, as no snapshot is written: this shows that it is not read.
  await writeFile(manifest, text(other))
  await utimes(manifest, 1000, 1000)
  expect(await store.findUsedLayers()).toEqual(new Set([LAYER]))
  await writeFile(`${manifest}.new`, text(third))
  await rename(`${manifest}.new`, manifest)
  expect(await store.findUsedLayers()).toEqual(new Set([third]))
  await rm(layout.snapshot(ONE).dir, { recursive: true })
  expect(await store.findUsedLayers()).toEqual(new Set())
})

test('the layers of a snapshot are known again when its manifest was mended', async () => {
  await write(ONE, '')
  expect(await store.findUsedLayers()).toBeUndefined()
  await writeFile(layout.snapshot(ONE).manifest, JSON.stringify({ formatVersion: 2, layers: [LAYER] }))
  expect(await store.findUsedLayers()).toEqual(new Set([LAYER]))
})
