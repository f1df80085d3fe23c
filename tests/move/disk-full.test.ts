import { readdir } from 'node:fs/promises'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { makeSmallDisk } from '../snapshot/small-disk.ts'
import { createBurrow, move, python } from './moved-burrow.ts'

const MB = 1024 ** 2
const disk = await makeSmallDisk(512 * MB)
let engine: LinuxEngine
let burrow: LinuxBurrow

beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir: disk.dataDir, stateDir: disk.stateDir })
  burrow = await createBurrow(engine)
  await python(burrow, `import os, zlib; data = os.urandom(${100 * MB}); checksum = zlib.crc32(data)`)
})
afterAll(async () => {
  await burrow?.destroy()
  await engine?.[Symbol.asyncDispose]()
  await disk.remove()
})

test.for([16 * 1024, 5 * MB, 43 * MB])(
  'with %i bytes left the sandbox keeps what does not fit in its memory',
  async (freeBytes) => {
    await disk.fillUpTo(freeBytes)
    const before = await burrow.anonymousBytes()
    const { movedBytes } = await move(burrow)
    expect(movedBytes).toBeLessThanOrEqual(freeBytes)
    expect(await burrow.anonymousBytes()).toBeGreaterThan(before - freeBytes)
    // A file that nothing maps is removed.
    if (movedBytes === 0) expect(await readdir(burrow.paths.memory)).toEqual([])
    expect(await python(burrow, 'print(zlib.crc32(data) == checksum)')).toBe('True')
    await disk.makeRoom()
  },
)

test('the next move continues, and the snapshot is sound', async () => {
  await move(burrow)
  expect(await burrow.anonymousBytes()).toBeLessThan(60 * MB)
  const { snapshot, burrow: woken } = await engine.snapshot(burrow, { leave: 'running' })
  burrow = woken as unknown as LinuxBurrow
  expect(await python(burrow, 'print(zlib.crc32(data) == checksum)')).toBe('True')
  await engine.verifySnapshot(snapshot.id)
})
