import { readdir, readFile } from 'node:fs/promises'
import type { SnapshotId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSmallDisk } from './small-disk.ts'
import { expectWhole, wearOut } from './worn-sandbox.ts'

const MB = 1024 ** 2
const disk = await makeSmallDisk(1024 * MB)
const { dataDir, stateDir, layout } = disk
let engine: LinuxEngine
let id: SnapshotId

beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir, stateDir })
  id = await wearOut(engine)
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await disk.remove()
})

async function readState() {
  const manifest = JSON.parse(await readFile(layout.snapshot(id).manifest, 'utf8')) as {
    generation?: number
    layers: string[]
  }
  const names = [...(await readdir(layout.snapshotsDir)), ...(await readdir(layout.layersDir))].sort()
  const isHint = (name: string) => name === 'touched' || name === 'ahead'
  const parts = (await readdir(layout.snapshot(id).dir)).filter((name) => !isHint(name)).sort()
  return { manifest, names, parts }
}

describe('disk full during upkeep', () => {
  // Not even a directory fits; the merged layer does not fit; it does, and the memory does not.
  test('the snapshot stays as it was, nothing is left over, and with room it is done', async () => {
    const before = await readState()
    const outcomes = new Set<unknown>()
    for (const freeBytes of [16 * 1024, 200_000, 500_000, MB, 1.5 * MB, 2 * MB, 4 * MB, 16 * MB]) {
      await disk.fillUpTo(freeBytes)
      const outcome = await engine.upkeep().catch((error: unknown) => error)
      await disk.makeRoom()
      outcomes.add((outcome as { code?: unknown }).code ?? 'done')
      if (outcome instanceof Error) {
        expect(outcome).toMatchObject({ code: 'no_space' })
        await expect.poll(readState, { timeout: 10_000 }).toEqual(before)
      } else break
    }
    expect(outcomes).toContain('no_space')
    await expectWhole(engine, id)
    await engine.upkeep()
    const { manifest, names, parts } = await readState()
    expect(manifest).toMatchObject({ generation: 1 })
    // Unneeded layers are removed a little later.
    const kept = [id, ...manifest.layers].sort()
    expect(names).toEqual(expect.arrayContaining(kept))
    await expect.poll(readState, { timeout: 10_000 }).toMatchObject({ names: kept })
    expect(parts).toEqual(['generation-1', 'manifest.json'])
    await expectWhole(engine, id)
  }, 180_000)
})
