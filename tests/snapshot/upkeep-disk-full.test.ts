import { readdir, readFile } from 'node:fs/promises'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSmallDisk } from './small-disk.ts'
import { ageSnapshot, expectWhole, wearOut } from './worn-sandbox.ts'

const MB = 1024 ** 2
const disk = await makeSmallDisk(1024 * MB)
const { dataDir, stateDir, layout } = disk
let engine: LinuxEngine
let id: SnapshotId

beforeAll(async () => {
  // Ends before it would do its upkeep in the background, with room.
  const first = await LinuxEngine.open({ dataDir, stateDir })
  id = await wearOut(first)
  await first[Symbol.asyncDispose]()
  await ageSnapshot(layout.snapshot(id).manifest)
  engine = await LinuxEngine.open({ dataDir, stateDir })
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
    // With little room its pages are folded first, and its memory is rewritten when there is more.
    expect(manifest).toMatchObject({ generation: expect.any(Number), folded: true })
    // Unneeded layers are removed a little later.
    const kept = [id, ...manifest.layers].sort()
    expect(names).toEqual(expect.arrayContaining(kept))
    await expect.poll(readState, { timeout: 10_000 }).toMatchObject({ names: kept })
    expect(parts).toEqual([`generation-${manifest.generation}`, 'manifest.json'])
    await expectWhole(engine, id)
  }, 180_000)

  // Waking it writes its pages to the disk again.
  test('a folded snapshot is not restored without room, nothing is left over, and with room it wakes whole', async () => {
    const before = await readState()
    await disk.fillUpTo(200_000)
    const outcome = await engine.restore(id, { sandboxId: newSandboxId() }).catch((error: unknown) => error)
    await disk.makeRoom()
    expect(outcome).toMatchObject({ code: 'no_space' })
    await expect.poll(readState, { timeout: 10_000 }).toEqual(before)
    const unfolded = async () =>
      (await readdir(stateDir, { recursive: true })).filter((path) => /unfolded\/./.test(path))
    await expect.poll(unfolded, { timeout: 10_000 }).toEqual([])
    await expectWhole(engine, id)
  }, 180_000)
})
