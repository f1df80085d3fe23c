import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { ArrivingPart, PortablePart } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'
import { ageSnapshot } from './worn-sandbox.ts'

const CHUNK_BYTES = 128 * 1024
const from = await linuxFactory()
const to = await linuxFactory()
let sender: LinuxEngine
let receiver: LinuxEngine

beforeAll(async () => {
  sender = await LinuxEngine.open({ dataDir: testDataDir, stateDir: from.stateDir })
  receiver = await LinuxEngine.open({ dataDir: testDataDir, stateDir: to.stateDir })
})
afterAll(async () => {
  for (const engine of [sender, receiver]) await engine?.[Symbol.asyncDispose]()
  for (const factory of [from, to]) await factory.cleanUp()
})

const readManifest = async ({ layout }: typeof from, id: SnapshotId) =>
  JSON.parse(await readFile(layout.snapshot(id).manifest, 'utf8'))

/** A sandbox that has woken once, asleep, and old enough that its pages are folded. */
async function makeAsleep(): Promise<SnapshotId> {
  const sandboxId = newSandboxId()
  const burrow = await sender.createBurrow({ sandboxId, template: 'python' })
  await burrow.guest.runs.run({
    code: 'import os, zlib; blob = os.urandom(32 << 20); sum = zlib.crc32(blob)',
  })
  const { snapshot } = await sender.snapshot(burrow, { leave: 'gone' })
  await ageSnapshot(from.layout.snapshot(snapshot.id).manifest)
  return snapshot.id
}

async function bytesOf(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** `load` is called for every chunk of memory before it arrives. */
async function inTransit(
  part: PortablePart,
  load: (key: string, chunk: { index: number; count: number }) => Promise<void>,
): Promise<ArrivingPart> {
  const { key } = part
  if (part.kind === 'archive') {
    const bytes = await bytesOf(part.read())
    return {
      kind: 'archive',
      key,
      content: async function* () {
        yield bytes
      },
    }
  }
  const { extents, content } = await part.read()
  const bytes = await bytesOf(content)
  const count = Math.ceil(bytes.length / CHUNK_BYTES)
  const loadChunk = async (index: number) => {
    await load(key, { index, count })
    return bytes.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES)
  }
  return {
    kind: 'file',
    key,
    file: { sizeBytes: part.sizeBytes, extents, chunkBytes: CHUNK_BYTES, load: loadChunk },
  }
}

test('a folded snapshot wakes on another host before its memory has arrived, and the template’s is not fetched', {
  timeout: 60_000,
}, async () => {
  const id = await makeAsleep()
  expect(await sender.upkeep()).toEqual([id])
  expect(await readManifest(from, id)).toMatchObject({ folded: true })
  let release = () => {}
  const isReleased = new Promise<void>((resolve) => {
    release = resolve
  })
  const loaded = new Set<string>()
  // The middle of what the processes made: no wake touches it.
  const load = async (key: string, { index, count }: { index: number; count: number }) => {
    loaded.add(key)
    if (count > 200 && index === Math.floor(count / 2)) await isReleased
  }
  await sender.transferOf('process')!.export(id, async ({ parts }) => {
    const arriving = await Promise.all(parts.map((part) => inTransit(part, load)))
    await receiver.transferOf('process')!.import(id, arriving, 'test')
  })
  expect((await readdir(from.layout.snapshotsDir)).filter((name) => name.startsWith('.taking'))).toEqual([])
  const moved = await readManifest(to, id)
  expect(moved.folded).toBeUndefined()

  const burrow = await receiver.restore(id, { sandboxId: newSandboxId() })
  expect((await burrow.guest.runs.run({ code: 'print(len(blob))' })).stdout).toBe(`${32 << 20}\n`)
  expect(await readdir(to.layout.snapshot(id).dir)).toContain('arriving')
  release()
  expect((await burrow.guest.runs.run({ code: 'print(zlib.crc32(blob) == sum)' })).stdout).toBe('True\n')
  await receiver.transferOf('process')!.untilArrived(id)
  const snapshots = join(testDataDir, 'templates/python/current/snapshots')
  const ofTemplate = await Promise.all(
    (await readdir(snapshots)).map((name) => readdir(join(snapshots, name, 'memory')).catch(() => [])),
  )
  const shared = moved.memory.filter(({ name }: { name: string }) => ofTemplate.flat().includes(name))
  expect(shared.length).toBeGreaterThan(0)
  for (const { name } of shared) expect([...loaded].some((key) => key.includes(name))).toBe(false)

  await burrow.destroy()
  for (const engine of [sender, receiver]) await engine.deleteSnapshot(id)
})

test('upkeep folds no pages while a host of the cluster could not restore them', async () => {
  const id = await makeAsleep()
  sender.transferOf('process')!.limitForms(() => false)
  expect(await sender.upkeep()).toEqual([])
  sender.transferOf('process')!.limitForms((form) => sender.transferOf('process')!.forms.includes(form))
  expect(await sender.upkeep()).toEqual([id])
  expect(await readManifest(from, id)).toMatchObject({ folded: true })
  await sender.deleteSnapshot(id)
})
