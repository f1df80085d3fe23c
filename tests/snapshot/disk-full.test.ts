import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSmallDisk } from './small-disk.ts'

const MB = 1024 ** 2
const DISK_BYTES = 512 * MB
const DATA_BYTES = 48 * MB

const disk = await makeSmallDisk(DISK_BYTES)
const { dataDir, stateDir, layout } = disk
let engine: LinuxEngine
let burrow: Burrow

beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir, stateDir })
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const code = `import hashlib, os; data = bytearray(os.urandom(${DATA_BYTES})); digest = hashlib.sha256(data).digest(); ticks = 0`
  await burrow.guest.runs.run({ code })
})

afterAll(async () => {
  await burrow?.destroy()
  await engine?.[Symbol.asyncDispose]()
  await disk.remove()
})

async function expectWell(): Promise<void> {
  const code = 'ticks += 1; print(hashlib.sha256(data).digest() == digest, ticks)'
  const before = await burrow.guest.runs.run({ code })
  expect(before.stdout).toMatch(/^True \d+\n$/)
}

describe('disk full while a snapshot is taken', () => {
  // Nothing fits; the dump does not fit; the dump fits, and what is made of it does not.
  test.each([16 * 1024, ...[1, 8, 30, 50, 60, 70, 80, 90, 100, 120, 140, 160, 200].map((size) => size * MB)])(
    'with %i bytes left: the sandbox keeps running, nothing is left over, and the error says why',
    async (freeBytes) => {
      await disk.fillUpTo(freeBytes)
      const before = [await readdir(layout.snapshotsDir), await readdir(layout.layersDir)]
      const outcome = await engine.snapshot(burrow, { leave: 'running' }).catch((error: unknown) => error)
      if (outcome instanceof Error) {
        expect(outcome).toMatchObject({ code: 'no_space' })
        expect([await readdir(layout.snapshotsDir), await readdir(layout.layersDir)]).toEqual(before)
        await disk.makeRoom()
      } else {
        await disk.makeRoom()
        const { snapshot, burrow: next } = outcome as Awaited<ReturnType<LinuxEngine['snapshot']>>
        burrow = next!
        await engine.deleteSnapshot(snapshot.id)
      }
      await expectWell()
      await writeFile(join(stateDir, 'probe'), 'there is room again')
    },
  )

  test('with room again it works', async () => {
    const { burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    burrow = next!
    await expectWell()
  })
})
