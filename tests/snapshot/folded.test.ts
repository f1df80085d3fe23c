import { readFileSync } from 'node:fs'
import { link, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { ageSnapshot, expectWhole, wearOut } from './worn-sandbox.ts'

const factory = await linuxFactory()
let engine: LinuxEngine
beforeAll(async () => {
  engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

const START = `
import hashlib, os, threading
data = bytearray(os.urandom(24 << 20)); freed = bytearray(os.urandom(24 << 20)); things = [object() for _ in range(50_000)]
tick = threading.Event(); threading.Thread(target=tick.wait, daemon=True).start()
`
const WEAR = `
freed = None
for at in range(0, len(data), 1 << 20): data[at] ^= 1
seal = hashlib.sha256(data).digest(); ids = hash(tuple(map(id, things)))
`
const CHECK = `print(hashlib.sha256(data).digest() == seal, hash(tuple(map(id, things))) == ids, threading.active_count() > 1)`

async function run(burrow: Burrow, code: string): Promise<string> {
  const { error, stdout } = await burrow.guest.runs.run({ code })
  expect(error?.traceback).toBeUndefined()
  return stdout
}

interface Written {
  readonly generation?: number
  readonly folded?: boolean
  readonly images: readonly { readonly name: string; readonly sizeBytes: number }[]
}

async function readManifest(id: SnapshotId): Promise<Written> {
  return JSON.parse(await readFile(factory.layout.snapshot(id).manifest, 'utf8')) as Written
}

const bytesOf = ({ images }: Written) => images.reduce((bytes, { sizeBytes }) => bytes + sizeBytes, 0)

test('a snapshot that sleeps for long is folded, wakes whole, and sleeps again', async () => {
  const sandboxId = newSandboxId()
  let burrow = await engine.createBurrow({ sandboxId, template: 'python' })
  await run(burrow, START)
  const before = await engine.snapshot(burrow, { leave: 'running' })
  burrow = before.burrow!
  await run(burrow, WEAR)
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  const plain = await readManifest(snapshot.id)
  expect(plain.folded).toBeUndefined()
  // Too early: it may wake soon again.
  expect(await engine.upkeep()).toEqual([])

  await ageSnapshot(factory.layout.snapshot(snapshot.id).manifest)
  expect(await engine.upkeep()).toEqual([snapshot.id])
  const folded = await readManifest(snapshot.id)
  expect(folded).toMatchObject({ folded: true, generation: 1 })
  expect(bytesOf(folded)).toBeLessThan(bytesOf(plain) / 2)
  expect(await engine.upkeep()).toEqual([])

  const wakes = await Promise.all(
    [1, 2].map(() => engine.restore(snapshot.id, { sandboxId: newSandboxId() })),
  )
  for (const woken of wakes) expect(await run(woken, CHECK)).toBe('True True True\n')
  // What was made for the restore is gone.
  const { unfolded } = factory.layout.burrow(wakes[0]!.id)
  await expect.poll(() => readdir(unfolded), { timeout: 10_000 }).toEqual([])
  const [first, second] = wakes as [Burrow, Burrow]
  const again = await engine.snapshot(first, { leave: 'gone' })
  const later = await engine.restore(again.snapshot.id, { sandboxId: first.sandboxId, reseed: false })
  expect(await run(later, CHECK)).toBe('True True True\n')
  await later.destroy()
  await second.destroy()
  await engine.deleteSnapshot(again.snapshot.id)
  await engine.deleteSnapshot(before.snapshot.id)
  await engine.deleteSnapshot(snapshot.id)
})

test('a folded snapshot of which much is waste is rewritten, and stays folded', async () => {
  const id = await wearOut(engine)
  await ageSnapshot(factory.layout.snapshot(id).manifest)
  // Memory files that others have too are not rewritten.
  const { memory } = factory.layout.snapshot(id)
  const others = join(factory.stateDir, 'others')
  await mkdir(others)
  for (const name of await readdir(memory)) await link(join(memory, name), join(others, name))
  expect(await engine.upkeep()).toEqual([id])
  expect(await readManifest(id)).toMatchObject({ folded: true, generation: 1 })
  await expectWhole(engine, id)
  await rm(others, { recursive: true })
  expect(await engine.upkeep()).toEqual([id])
  expect(await readManifest(id)).toMatchObject({ folded: true, generation: 2 })
  await expectWhole(engine, id)
})

/** The programs of this process that unfold pages. */
async function findPageWorkers(): Promise<number[]> {
  const children = await readFile(`/proc/self/task/${process.pid}/children`, 'utf8')
  const isWorker = (pid: string) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'dormouse-pages'
  return children.trim().split(' ').filter(isWorker).map(Number)
}

test('a folded snapshot wakes when the program that unfolds is killed, and is refused when it is damaged', async () => {
  const sandboxId = newSandboxId()
  const burrow = await engine.createBurrow({ sandboxId, template: 'python' })
  await run(burrow, START + WEAR)
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  await ageSnapshot(factory.layout.snapshot(snapshot.id).manifest)
  expect(await engine.upkeep()).toEqual([snapshot.id])
  const wake = async () => {
    const woken = await engine.restore(snapshot.id, { sandboxId })
    expect(await run(woken, CHECK)).toBe('True True True\n')
    await woken.destroy()
  }
  await wake()

  const waiting = await findPageWorkers()
  expect(waiting).not.toEqual([])
  // This process has not noticed it when the wake begins.
  for (const pid of waiting) process.kill(pid, 'SIGKILL')
  await wake()

  const images = join(factory.layout.snapshot(snapshot.id).dir, 'generation-1/images')
  const folded = join(images, (await readdir(images)).find((name) => name.endsWith('.folded')) ?? '')
  const whole = await readFile(folded)
  const broken = Buffer.from(whole)
  broken.writeUInt8(broken.readUInt8(5000) ^ 1, 5000)
  await writeFile(folded, broken)
  await expect(engine.restore(snapshot.id, { sandboxId })).rejects.toMatchObject({
    code: 'snapshot_unusable',
    details: { damaged: true },
  })
  await writeFile(folded, whole)
  await wake()
  await engine.deleteSnapshot(snapshot.id)
})
