import { execFile } from 'node:child_process'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { newSandboxId, newVolumeId, type VolumeId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LinuxBurrow } from '../../packages/engine-linux/src/burrow/linux-burrow.ts'
import { type LinuxFactory, linuxFactory } from './linux-factory.ts'

const run = promisify(execFile)
const MIB = 1024 ** 2
/** Between the first and the last file that the writer changes, by name. */
const FILES = 300

const hasXfs =
  (await readFile('/proc/filesystems', 'utf8')).includes('\txfs\n') &&
  (await run('mkfs.xfs', ['-V']).then(
    () => true,
    () => false,
  ))

// The volumes are on a file system of their own, which can share blocks between files.
// Skip: needs XFS in the kernel, and mkfs.xfs.
describe.skipIf(!hasXfs)('volumes on XFS', () => {
  let factory: LinuxFactory
  let engine: Engine
  let burrow: Burrow
  const from = newVolumeId()
  const mount = { volumeId: from, path: '/data', readOnly: false }

  beforeAll(async () => {
    factory = await linuxFactory()
    const image = join(factory.stateDir, 'xfs.img')
    await run('mkfs.xfs', ['-q', '-m', 'reflink=1', '-d', `file,name=${image},size=320m`])
    await mkdir(factory.layout.volumesDir)
    await run('mount', ['-o', 'loop', image, factory.layout.volumesDir])
    engine = await factory.open()
    await engine.createVolume(from)
    burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', volumes: [mount] })
  })

  afterAll(async () => {
    await engine[Symbol.asyncDispose]()
    await factory.dispose()
    await run('umount', [factory.layout.volumesDir])
    await factory.cleanUp()
  })

  async function clone(): Promise<{ id: VolumeId; isOneMoment: boolean }> {
    const id = newVolumeId()
    const { isOneMoment } = await engine.cloneVolume({ from, to: id })
    return { id, isOneMoment }
  }

  async function read(id: VolumeId, path: string): Promise<string> {
    const { data } = await engine.volumeFiles(id).open(path)
    const pieces: Uint8Array[] = []
    for await (const piece of data) pieces.push(piece)
    return Buffer.concat(pieces).toString()
  }

  test('a clone shares the blocks of its files', async () => {
    await engine.volumeFiles(from).write('/large', Buffer.alloc(8 * MIB, 7))
    const { id } = await clone()
    const path = join(factory.layout.volumesDir, id, 'large')
    const { stdout } = await run('filefrag', ['-v', path])
    expect(stdout).toMatch(/^\s+0:.*\bshared\b/m)
    expect(Buffer.from(await read(id, '/large')).equals(Buffer.alloc(8 * MIB, 7))).toBe(true)
  })

  test('a clone shows one moment of a volume that a sandbox writes to', async () => {
    await burrow.guest.runs.run({
      code: `
import os, threading
for i in range(${FILES}):
    open(f'/data/m{i}', 'w').write('x' * 20000)
first, last = (os.open(f'/data/{name}', os.O_CREAT | os.O_WRONLY) for name in 'az')
def write():
    for i in range(10 ** 8):
        for file in (first, last):
            os.pwrite(file, b'%09d' % i, 0)
threading.Thread(target=write, daemon=True).start()`,
    })
    for (let round = 0; round < 4; round += 1) {
      const { id, isOneMoment } = await clone()
      const [first, last] = [Number(await read(id, '/a')), Number(await read(id, '/z'))]
      expect(isOneMoment).toBe(true)
      expect([0, 1]).toContain(first - last)
    }
    const before = Number(await read(from, '/a'))
    await expect.poll(async () => Number(await read(from, '/a'))).toBeGreaterThan(before)
  })

  test('a clone during an upload says that the volume changed', async () => {
    let upload = () => {}
    const uploading = new Promise<void>((resolve) => {
      upload = resolve
    })
    async function* slowly() {
      yield Buffer.from('beginning, ')
      await uploading
      yield Buffer.from('end')
    }
    const written = engine.volumeFiles(from).write('/uploaded', slowly())
    const { isOneMoment } = await clone()
    upload()
    await written
    expect(isOneMoment).toBe(false)
    expect(await read(from, '/uploaded')).toBe('beginning, end')
  })

  test('limits are measured where the kernel enforces none', async () => {
    const volumeId = newVolumeId()
    expect(await engine.createVolume(volumeId, { bytes: MIB, files: 10 })).toBe('measured')
    expect(await engine.limitVolumes([{ volumeId, bytes: 2 * MIB, files: 10 }])).toEqual(new Set())
    using measurement = await engine.measureVolume(volumeId)
    expect(await measurement.advance(5_000)).toMatchObject({ files: 0 })
    await engine.deleteVolume(volumeId)
  })

  test('a burrow whose files are held does not run before they are released', async () => {
    const held = await (burrow as LinuxBurrow).holdFiles()
    let isThawed = false
    const thawing = burrow.thaw().then(() => {
      isThawed = true
    })
    await sleep(100)
    expect(isThawed).toBe(false)
    expect(await (burrow as LinuxBurrow).isFrozen()).toBe(true)
    await held.release()
    await thawing
    expect((await burrow.guest.runs.run({ code: 'print(1)' })).stdout).toBe('1\n')
  })
})
