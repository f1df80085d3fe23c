import { readFile, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
let engine: Engine
beforeAll(async () => {
  engine = await factory.open()
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

/** Makes the manifest look as versions wrote it that did not show limits. */
async function forgetLimits(id: SnapshotId): Promise<void> {
  const path = factory.layout.snapshot(id).manifest
  const { showsLimits, ...manifest } = JSON.parse(await readFile(path, 'utf8'))
  expect(showsLimits).toBe(true)
  await writeFile(path, JSON.stringify(manifest))
}

async function totalMemory({ guest }: Burrow): Promise<number> {
  const code = 'file.seek(0); print(int(file.readline().split()[1]) * 1024)'
  return Number((await guest.runs.run({ code })).stdout)
}

test('a sandbox of a version that did not show limits wakes as it was, and sees them after its next sleep', async () => {
  const sandboxId = newSandboxId()
  const limits = { memoryBytes: 512 * 1024 ** 2 }
  const first = await engine.createBurrow({ sandboxId, template: 'python', limits })
  const { snapshot } = await engine.snapshot(first, { leave: 'gone' })
  await forgetLimits(snapshot.id)

  const second = await engine.restore(snapshot.id, { sandboxId, limits })
  await second.guest.runs.run({ code: 'file = open("/proc/meminfo")' })
  expect(await totalMemory(second)).toBe(totalmem())
  const { snapshot: next } = await engine.snapshot(second, { leave: 'gone' })

  await using third = await engine.restore(next.id, { sandboxId, limits })
  expect(await totalMemory(third)).toBe(limits.memoryBytes)
})
