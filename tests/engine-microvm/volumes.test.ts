import { newSandboxId, newVolumeId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import type { MicrovmEngine } from '@dormouse/engine-microvm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BOOT_TIMEOUT_MS, bootTemplate, microvmFactory, microvmMissing } from './microvm-factory.ts'

const missing = await microvmMissing()

// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)('volumes of machines', { timeout: 300_000 }, async () => {
  const factory = await microvmFactory()
  let engine: MicrovmEngine
  beforeAll(async () => {
    await bootTemplate(factory)
    engine = await factory.open()
  }, BOOT_TIMEOUT_MS)
  afterAll(async () => {
    await engine[Symbol.asyncDispose]()
    await factory.cleanUp()
  }, BOOT_TIMEOUT_MS)

  const printed = async (burrow: Burrow, code: string) => {
    const { stdout, error } = await burrow.guest.runs.run({ code })
    return error === undefined ? stdout.trim() : `${error.name}: ${error.message}`
  }

  test('a program continues to write while the server of the host is replaced, and nothing is lost', async () => {
    const volumeId = newVolumeId()
    await engine.createVolume(volumeId)
    const volumes = [{ volumeId, path: '/data', readOnly: false }]
    const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', volumes })
    const code = `
import threading
log = open("/data/log", "ab", buffering=0)
def write():
    for i in range(2000): log.write(b"%d\\n" % i)
thread = threading.Thread(target=write); thread.start()`
    expect(await printed(burrow, code)).toBe('')
    // The next engine finds the machine, and the process that answers for its volume, as a killed server left them.
    await engine[Symbol.asyncDispose]()
    engine = await factory.open()
    const { burrows } = await engine.adoptBurrows()
    const [adopted] = burrows
    expect(await printed(adopted!, 'thread.join(); print(log.tell())')).toBe('8890')
    const { data } = await engine.volumeFiles(volumeId).open('/log')
    let text = ''
    for await (const chunk of data) text += String(chunk)
    expect(text.trim().split('\n')).toEqual(Array.from({ length: 2000 }, (_, index) => String(index)))
    await adopted!.destroy()
    await engine.deleteVolume(volumeId)
  })

  test('a volume whose process on the host was killed works again after a sleep', async () => {
    const volumeId = newVolumeId()
    await engine.createVolume(volumeId)
    const volumes = [{ volumeId, path: '/data', readOnly: false }]
    const sandboxId = newSandboxId()
    const burrow = await engine.createBurrow({ sandboxId, template: 'python', volumes })
    await printed(burrow, 'f = open("/data/f", "w+"); n = f.write("kept"); f.flush()')
    await factory.killVolumeServers(burrow.id)
    const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
    const woken = await engine.restore(snapshot.id, { sandboxId })
    expect(await printed(woken, 'print(open("/data/f").read())')).toBe('kept')
    expect(await printed(woken, 'f.seek(0); f.read()')).toMatch(/^OSError/)
    await woken.destroy()
    await engine.deleteVolume(volumeId)
  })

  test('files, open ones and deleted ones survive a sleep', async () => {
    const volumeId = newVolumeId()
    await engine.createVolume(volumeId)
    const volumes = [{ volumeId, path: '/mnt/data', readOnly: false }]
    const sandboxId = newSandboxId()
    const first = await engine.createBurrow({ sandboxId, template: 'python', volumes })
    const code = `
import os, fcntl
open("/mnt/data/note", "w").write("hello")
f = open("/mnt/data/note", "r+"); print(f.read(2))
deleted = open("/mnt/data/deleted", "w+"); deleted.write("kept"); deleted.flush(); os.remove("/mnt/data/deleted")
data = os.urandom(2_000_000); open("/mnt/data/big", "wb").write(data)
s = os.stat("/mnt/data"); print(s.st_uid, oct(s.st_mode), open("/mnt/data/big", "rb").read() == data)`
    expect(await printed(first, code)).toBe('he\n0 0o40755 True')
    const { snapshot } = await engine.snapshot(first, { leave: 'gone' })
    expect(snapshot.volumes).toEqual(volumes)
    await engine.volumeFiles(volumeId).write('/note', Buffer.from('hello again'))
    const woken = await engine.restore(snapshot.id, { sandboxId })
    const check = 'deleted.seek(0); print(f.read(), deleted.read(), sorted(os.listdir("/mnt/data")))'
    expect(await printed(woken, check)).toBe("llo again kept ['big', 'note']")
    await expect(engine.deleteVolume(volumeId)).rejects.toMatchObject({ code: 'in_use' })
    await woken.destroy()
    await engine.deleteSnapshot(snapshot.id)
    await engine.deleteVolume(volumeId)
  })
})
