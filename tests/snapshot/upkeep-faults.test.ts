import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { SnapshotId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { ageSnapshot, expectWhole, wearOut } from './worn-sandbox.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('keep-up.mjs', import.meta.url))
const factory = await linuxFactory()
const { snapshotsDir, layersDir } = factory.layout
const backup = await mkdtemp(join(tmpdir(), 'dormouse-worn-'))
let id: SnapshotId

const open = () => LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })

beforeAll(async () => {
  await using engine = await open()
  id = await wearOut(engine)
  await ageSnapshot(factory.layout.snapshot(id).manifest)
  await run('cp', ['-a', snapshotsDir, layersDir, backup])
})
afterAll(async () => {
  await rm(backup, { recursive: true })
  await factory.cleanUp()
})

/** The snapshot as it was before any upkeep. */
async function reset(): Promise<void> {
  await rm(snapshotsDir, { recursive: true })
  await rm(layersDir, { recursive: true })
  await run('cp', ['-a', join(backup, 'snapshots'), join(backup, 'layers'), factory.stateDir])
}

async function readManifest(): Promise<{ generation?: number; layers: string[] }> {
  return JSON.parse(await readFile(factory.layout.snapshot(id).manifest, 'utf8'))
}

/** One version of one snapshot, its layers, and nothing else. */
async function expectTidy(): Promise<void> {
  expect(await readdir(snapshotsDir)).toEqual([id])
  const { generation, layers } = await readManifest()
  const parts = generation === undefined ? ['images', 'memory'] : [`generation-${generation}`]
  const HINTS = ['carried', 'touched', 'ahead']
  const names = (await readdir(factory.layout.snapshot(id).dir)).filter((name) => !HINTS.includes(name))
  expect(names.sort()).toEqual([...parts, 'manifest.json'].sort())
  const own = layers.filter((name) => !factory.layout.layer(name as never).includes('template-layers'))
  await expectLayers(own)
}

/** Unneeded layers are removed a little later. */
async function expectLayers(names: readonly string[]): Promise<void> {
  const wanted = [...names].sort()
  await expect.poll(async () => (await readdir(layersDir)).sort(), { timeout: 10_000 }).toEqual(wanted)
}

async function killAfter(delayMs: number): Promise<string[]> {
  const child = spawn(process.execPath, [program, testDataDir, factory.stateDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  const reading = (async () => {
    for await (const line of createInterface({ input: child.stdout })) lines.push(line)
  })()
  while (lines.length === 0 && child.exitCode === null) await sleep(1)
  await sleep(delayMs)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await reading
  return lines
}

describe('server killed with SIGKILL during upkeep', () => {
  test.each([0, 20, 60, 100, 150, 200, 300, 400, 600, 900, 3000])(
    'after %i ms: the snapshot wakes, old or new, and the next start tidies up',
    async (delayMs) => {
      await reset()
      const lines = await killAfter(delayMs)
      const first = await open()
      await expectWhole(first, id)
      await first[Symbol.asyncDispose]()
      await using engine = await open()
      await engine.adoptBurrows()
      await expectTidy()
      if (lines.includes('end')) expect(await readManifest()).toMatchObject({ generation: 1 })
      await engine.upkeep()
      await expectTidy()
      expect(await readManifest()).toMatchObject({ generation: 1 })
      expect((await readManifest()).layers.length).toBeLessThan(8)
      await expectWhole(engine, id)
    },
  )
})

describe('meanwhile', () => {
  test('restores at any moment see it whole, and wait for nothing', async () => {
    await reset()
    await using engine = await open()
    let isDone = false
    const upkeep = engine.upkeep().finally(() => {
      isDone = true
    })
    let restores = 0
    const wakeUntilDone = async () => {
      while (!isDone || restores < 4) {
        restores += 1
        await expectWhole(engine, id)
      }
    }
    await Promise.all([wakeUntilDone(), wakeUntilDone()])
    expect(await upkeep).toEqual([id])
    await expectWhole(engine, id)
    await expectTidy()
  })

  test.each([0, 30, 100, 200, 400])('deletion after %i ms ends it, and nothing is left', async (delayMs) => {
    await reset()
    await using engine = await open()
    const upkeep = engine.upkeep()
    await sleep(delayMs)
    await engine.deleteSnapshot(id)
    await upkeep
    await expect(engine.getSnapshot(id)).rejects.toMatchObject({ code: 'not_found' })
    expect(await readdir(snapshotsDir)).toEqual([])
    await expectLayers([])
  })

  test.each([0, 30, 100, 200, 400])('closing the engine after %i ms gives it up', async (delayMs) => {
    await reset()
    const engine = await open()
    const upkeep = engine.upkeep().catch((error: unknown) => error)
    await sleep(delayMs)
    await engine[Symbol.asyncDispose]()
    const outcome = await upkeep
    if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'cancelled' })
    await using next = await open()
    await next.adoptBurrows()
    await expectTidy()
    await expectWhole(next, id)
  })

  test('it happens by itself after a sleep', async () => {
    await reset()
    await using engine = await open()
    const burrow = await engine.restore(id, { sandboxId: (await engine.getSnapshot(id)).sandboxId })
    await engine.deleteSnapshot(id)
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    id = snapshot.id
    await expect.poll(readManifest, { timeout: 20_000 }).toMatchObject({ generation: 1 })
    await expectWhole(engine, id)
  })
})
