import { readdir } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { BrokenDisk } from './break-files.ts'

const MB = 1024 ** 2
const factory = await linuxFactory()
let engine: Engine
beforeAll(async () => {
  engine = await factory.open()
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

describe('what a snapshot takes on disk', () => {
  test('counts files in any number and at any depth, without a list of them in this process', async () => {
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    const code = `
import os
os.makedirs("/root/many"); os.chdir("/root/many")
for n in range(2000): open(str(n), "w").close()
os.chdir("/root")
for _ in range(40): os.mkdir("d" * 200); os.chdir("d" * 200)
open("f", "wb").write(os.urandom(8 << 20)); os.link("f", "g")
os.chdir("/")`
    const { error } = await burrow.guest.runs.run({ code })
    expect(error).toBeUndefined()
    const before = await engine.storage()
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    const read: string[] = []
    using _watched = new BrokenDisk({
      delay: (path) => {
        read.push(path)
        return undefined
      },
    })
    const { totalBytes, snapshots } = await engine.storage()
    const bytes = snapshots.get(snapshot.id) ?? 0
    const { images, memory } = snapshot.bytes
    expect(bytes - images - memory).toBeGreaterThan(8 * MB)
    expect(bytes - images - memory).toBeLessThan(16 * MB)
    expect(totalBytes - before.totalBytes).toBeGreaterThan(8 * MB)
    expect(read.filter((path) => path.startsWith(`${factory.layout.layersDir}/`))).toEqual([])
    await engine.deleteSnapshot(snapshot.id)
    await expect.poll(() => readdir(factory.layout.layersDir), { timeout: 20_000 }).toEqual([])
  })
})
