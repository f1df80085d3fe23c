import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { deflateRawSync } from 'node:zlib'
import { DormouseError, newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { ArrivingPart, Burrow, PortablePart } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
vi.setConfig({ testTimeout: BOOT_TIMEOUT_MS, hookTimeout: BOOT_TIMEOUT_MS })

const CHUNK_BYTES = 128 * 1024
const BLOB_BYTES = 24 * 1024 ** 2

/** How the depot answers for chunks of `blob`, which no wake touches. */
type Depot = 'works' | 'is cut off' | 'has lost one'

/** Machines that wake on another host before their memory is there. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`a machine that arrives${missing ? `: ${missing}` : ''}`, () => {
  let from: MicrovmFactory
  let to: MicrovmFactory
  let receiver: MicrovmEngine
  let id: SnapshotId
  let parts: ArrivingPart[]
  let sum: string
  let depot: Depot = 'works'
  let askedInVain = 0
  let lost: number | undefined

  const python = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()
  const transfer = () => receiver.transferOf('microvm')!
  const isArriving = () => existsSync(join(to.layout.snapshot(id).dir, 'arriving'))

  beforeAll(async () => {
    from = await microvmFactory()
    to = await microvmFactory()
    const sender = await from.open()
    const sandboxId = newSandboxId()
    const burrow = await sender.createBurrow({ sandboxId, template: 'python' })
    const make = `import os, zlib; blob = os.urandom(${BLOB_BYTES}); n = 1; print(zlib.crc32(blob))`
    sum = await python(burrow, make)
    // The second sleep knows that the last wake did not touch the blob.
    const first = await sender.snapshot(burrow, { leave: 'running' })
    await python(first.burrow!, 'n += 1')
    const second = await sender.snapshot(first.burrow!, { leave: 'gone' })
    id = second.snapshot.id
    const all = await sender
      .transferOf('microvm')!
      .export(id, (snapshot) => Promise.all(snapshot.parts.map(inTransit)))
    parts = all
    await sender[Symbol.asyncDispose]()
    receiver = await to.open()
  })
  afterEach(async () => {
    depot = 'works'
    askedInVain = 0
    await receiver.deleteSnapshot(id).catch(() => {})
  })
  afterAll(async () => {
    await receiver?.[Symbol.asyncDispose]()
    for (const factory of [from, to]) await factory?.cleanUp()
  })

  async function inTransit(part: PortablePart): Promise<ArrivingPart> {
    if (part.kind !== 'file') throw new Error('a machine has only files')
    const { key, sizeBytes } = part
    const { extents, content } = await part.read()
    const bytes = Buffer.concat(await content.toArray())
    const load = async (index: number) => {
      const chunk = bytes.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES)
      // Only random bytes cannot be compressed.
      const isOfBlob = key.includes('/memory/') && deflateRawSync(chunk, { level: 1 }).length > chunk.length
      if (!isOfBlob || depot === 'works') return chunk
      lost ??= index
      if (depot === 'has lost one' && index !== lost) return chunk
      askedInVain += 1
      if (depot === 'is cut off') throw new Error('the depot does not answer')
      throw new DormouseError('snapshot_unusable', 'lost', { details: { reason: 'lost', damaged: true } })
    }
    return { kind: 'file', key, file: { sizeBytes, extents, chunkBytes: CHUNK_BYTES, load } }
  }

  const wake = () => receiver.restore(id, { sandboxId: newSandboxId() })

  test('it runs and is written to while the depot is cut off, and its next sleep waits for the rest', async () => {
    depot = 'is cut off'
    await transfer().import(id, parts, 'test')
    await using burrow = await wake()
    expect(await python(burrow, 'n += 40; print(n)')).toBe('42')
    await expect.poll(() => askedInVain).toBeGreaterThan(0)
    let isSaved = false
    const save = receiver.snapshot(burrow, { leave: 'gone' }).finally(() => {
      isSaved = true
    })
    const before = askedInVain
    await expect.poll(() => askedInVain).toBeGreaterThan(before)
    expect([isSaved, isArriving()]).toEqual([false, true])
    depot = 'works'
    const { snapshot } = await save
    expect(isArriving()).toBe(false)
    await receiver.deleteSnapshot(id)
    const next = await receiver.restore(snapshot.id, { sandboxId: newSandboxId() })
    expect(await python(next, 'print(n, zlib.crc32(blob))')).toBe(`42 ${sum}`)
    // First: files that have arrived stay while a machine uses them, and the next test must fetch them.
    await next.destroy()
    await receiver.deleteSnapshot(snapshot.id)
  })

  test('a server that ends meanwhile leaves a machine that the next one takes over and completes', async () => {
    depot = 'is cut off'
    await transfer().import(id, parts, 'test')
    const burrow = await wake()
    expect(await python(burrow, 'n += 40; print(n)')).toBe('42')
    // It waits for a page while no server is there.
    void python(burrow, 'found = zlib.crc32(blob)').catch(() => {})
    await expect.poll(() => askedInVain).toBeGreaterThan(0)
    await receiver[Symbol.asyncDispose]()
    receiver = await to.open()
    const { burrows, lost } = await receiver.adoptBurrows()
    expect([burrows.map((one) => one.id), lost]).toEqual([[burrow.id], []])
    expect(await transfer().interrupted()).toEqual([{ id, origin: 'test' }])
    depot = 'works'
    await transfer().resume(id, parts)
    await transfer().untilArrived(id)
    await using adopted = burrows[0]!
    expect(await python(adopted, 'print(n, found)')).toBe(`42 ${sum}`)
  })

  test('what the depot has lost ends the machine that needs it, and the snapshot is damaged', async () => {
    depot = 'has lost one'
    await transfer().import(id, parts, 'test')
    const damage = { code: 'snapshot_unusable', details: { damaged: true } }
    await using burrow = await wake()
    expect(await python(burrow, 'print(n)')).toBe('2')
    await expect(python(burrow, 'print(zlib.crc32(blob))')).rejects.toMatchObject(damage)
    expect(await burrow.ended).toEqual({ reason: 'killed' })
    await expect(transfer().untilArrived(id)).rejects.toMatchObject(damage)
    await expect(wake()).rejects.toMatchObject(damage)
  })
})
