import { readdirSync, readFileSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { savedPaths } from '../../packages/engine-microvm/src/host/microvm-layout.ts'
import { readManifest } from '../../packages/engine-microvm/src/storage/manifest.ts'
import { BOOT_TIMEOUT_MS, type MicrovmFactory, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()
const MIB = 1024 ** 2
const WRITTEN_MIB = 500

/** What a guest has written is neither read nor copied while it stands still. */
// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(`the disk of a snapshot${missing ? `: ${missing}` : ''}`, () => {
  let factory: MicrovmFactory
  let engine: MicrovmEngine

  beforeAll(async () => {
    factory = await microvmFactory()
    engine = await factory.open()
    await engine.prepareTemplate('python', 1024 ** 3)
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]()
    await factory?.cleanUp()
  })
  const create = () => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const python = async (burrow: Burrow, code: string) => (await burrow.guest.runs.run({ code })).stdout.trim()
  /** By the threads of this process, also from the page cache. /proc/self/io also counts programs that have ended. */
  const readSoFar = () =>
    readdirSync('/proc/self/task')
      .map((thread) => readFileSync(`/proc/self/task/${thread}/io`, 'utf8'))
      .reduce((sum, io) => sum + Number(/^rchar: (\d+)$/m.exec(io)?.[1] ?? Number.NaN), 0)

  test('500 MB that a guest wrote are read only after it continues, and are checked later', async () => {
    const burrow = await create()
    const write = `
import os
with open("/root/data", "wb") as file:
    for i in range(${WRITTEN_MIB}): file.write(bytes([i % 255 + 1]) * 1048576)
    os.fsync(file.fileno())
print(os.stat("/root/data").st_blocks // 2048)`
    expect(Number(await python(burrow, write))).toBeGreaterThanOrEqual(WRITTEN_MIB)
    const before = readSoFar()
    const { snapshot, burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    expect(readSoFar() - before).toBeLessThan((WRITTEN_MIB / 4) * MIB)
    expect(snapshot.bytes.images).toBeGreaterThan(WRITTEN_MIB * MIB)
    expect(await python(next!, 'print(6 * 7)')).toBe('42')
    // Once for the checksum, once to compare with it.
    await engine.verifySnapshot(snapshot.id)
    expect(readSoFar() - before).toBeGreaterThan(2 * WRITTEN_MIB * MIB)
    await next!.destroy()
    const { dir } = factory.layout.snapshot(snapshot.id)
    const { base } = await readManifest(savedPaths(dir).manifest, snapshot.id)
    const disk = await open(join(dir, 'disks', base.disks.at(-1)!), 'r+')
    await disk.write(Buffer.from('damage'), 0, 6, (WRITTEN_MIB / 2) * MIB)
    await disk.close()
    await expect(engine.verifySnapshot(snapshot.id)).rejects.toMatchObject({
      code: 'snapshot_unusable',
      message: expect.stringContaining('has changed'),
    })
    await engine.deleteSnapshot(snapshot.id)
  })

  test('the next server adds checksums that a killed one has left, and a deleted snapshot needs none', async () => {
    const burrow = await create()
    await python(burrow, 'open("/root/small", "w").write("kept")')
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    // What a server has published that was killed before it read the disk.
    await engine.verifySnapshot(snapshot.id)
    const path = factory.layout.snapshot(snapshot.id).manifest
    const manifest = JSON.parse(await readFile(path, 'utf8'))
    const name = `disks/${manifest.base.disks.at(-1)}`
    const { [name]: sum, ...sums } = manifest.sums
    expect(sum).toMatch(/^[0-9a-f]{64}$/)
    const file = await open(path, 'w')
    await file.writeFile(JSON.stringify({ ...manifest, sums }))
    await file.close()
    const next = await factory.open()
    await next.adoptBurrows()
    await next.verifySnapshot(snapshot.id)
    expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(manifest)
    const woken = await next.restore(snapshot.id, { sandboxId: burrow.sandboxId })
    expect(await python(woken, 'print(open("/root/small").read())')).toBe('kept')
    const second = await next.snapshot(woken, { leave: 'gone' })
    await next.deleteSnapshot(second.snapshot.id)
    await next[Symbol.asyncDispose]()
    expect(next.failures.get('upkeep')).toBeUndefined()
    await engine.deleteSnapshot(snapshot.id)
  })
})
