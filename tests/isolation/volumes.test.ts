import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, type VolumeId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { printed, useVolumes } from '../../packages/engine/src/contract/volumes.ts'
import { TEST_ISOLATION } from '../test-isolation.ts'
import { isolatedFactory } from './isolated-factory.ts'

const factory = await isolatedFactory()
afterAll(() => factory.cleanUp())

/**
 * Every way that mount(2) and its younger relatives offer to make a read-only mount writable or get at what is under
 * it. Root of a machine may change the mounts of its own kernel, so there the volume itself must refuse.
 */
const REMOUNTS = `import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call):
    ctypes.set_errno(0)
    return call() == -1 and os.strerror(ctypes.get_errno())
MS_REMOUNT, MS_BIND = 32, 4096
attributes = struct.pack("QQQQ", 0, 1, 0, 0)
print([attempt(call) for call in [
    lambda: libc.mount(None, b"/data", None, MS_REMOUNT, None),
    lambda: libc.mount(None, b"/data", None, MS_REMOUNT | MS_BIND, None),
] + ([] if ${TEST_ISOLATION === 'microvm' ? 'True' : 'False'} else [
    lambda: libc.mount(b"/data", b"/mnt", None, MS_BIND, None),
    lambda: libc.umount2(b"/data", 2),
    lambda: libc.syscall(442, -100, b"/data", 0, attributes, len(attributes)),
    lambda: libc.syscall(428, -100, b"/data", 1),
    lambda: libc.unshare(0x10000000 | 0x00020000),
])])`

describe('volumes and a hostile sandbox', () => {
  const bench = useVolumes(factory)
  let id: VolumeId
  let writer: Burrow
  beforeAll(async () => {
    id = await bench.volume()
    writer = await bench.mounting(id)
  })
  const volumeDir = (volume: VolumeId) => join(factory.layout.volumesDir, volume)

  test('root cannot make a read-only volume writable, before or after a sleep', async () => {
    const reader = await bench.mounting({ volumeId: id, path: '/data', readOnly: true })
    const { burrow: awake } = await bench.engine.snapshot(reader, { leave: 'running' })
    const answers = await printed(bench.hold(awake!), REMOUNTS)
    const refusals = /^\[('Operation not permitted',? ?|'Function not implemented',? ?){7}\]$/
    if (TEST_ISOLATION === 'process') expect(answers).toMatch(refusals)
    expect(await printed(awake!, 'open("/data/x", "w")')).toMatch(/Read-only/)
    expect(await readdir(volumeDir(id))).not.toContain('x')
  })

  test('the mount point of a volume cannot be removed; while its parent is moved the sandbox is not saved, and continues when it is back', async () => {
    const burrow = await bench.mounting({ volumeId: id, path: '/srv/a/data', readOnly: false })
    for (const line of ['os.rmdir("/srv/a/data")', 'os.rename("/srv/a/data", "/srv/x")'])
      expect(await printed(burrow, `import os; ${line}`)).toMatch(/^OSError.*busy/)
    const move = 'import os; os.rename("/srv/a", "/srv/b"); os.symlink("/etc", "/srv/a")'
    expect(await printed(burrow, move)).toBe('')
    await expect(bench.engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
      code: 'snapshot_refused',
      message: expect.stringMatching(/\/srv\/a\/data.*renamed/),
    })
    expect(await printed(burrow, 'os.remove("/srv/a"); os.rename("/srv/b", "/srv/a")')).toBe('')
    const { burrow: awake } = await bench.engine.snapshot(burrow, { leave: 'running' })
    expect(await printed(bench.hold(awake!), 'print(os.path.ismount("/srv/a/data"))')).toBe('True')
  })

  test('links on the way to a volume lead nowhere', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'dormouse-outside-'))
    try {
      const burrow = await bench.create()
      await printed(
        burrow,
        `import os; os.symlink("/etc", "/evil"); os.symlink("/", "/up"); os.symlink("../../../..${outside}", "/out")
os.mkdir("/real"); os.symlink("/etc", "/real/link"); open("/real/file", "w")`,
      )
      const { snapshot } = await bench.engine.snapshot(burrow, { leave: 'gone' })
      const before = (await factory.traces()).length
      for (const path of [
        '/evil',
        '/evil/x',
        '/up/proc/x',
        '/out/x',
        '/real/link/x',
        '/real/file',
        '/real/file/x',
      ]) {
        const volumes = [{ volumeId: id, path, readOnly: false }]
        const restoring = bench.engine.restore(snapshot.id, { sandboxId: newSandboxId(), volumes })
        await expect(restoring, path).rejects.toMatchObject({ code: 'invalid_argument' })
      }
      expect(await factory.traces()).toHaveLength(before)
      expect(await readdir(outside)).toEqual([])
      const fine = await bench.engine.restore(snapshot.id, { sandboxId: newSandboxId() })
      expect(await printed(bench.hold(fine), 'print(sorted(os.listdir("/real")))')).toBe("['file', 'link']")
      await bench.engine.deleteSnapshot(snapshot.id)
    } finally {
      await rm(outside, { recursive: true })
    }
  })

  test('links on a volume lead neither the engine nor a neighbour that wakes out of it', async () => {
    const outside = await mkdtemp(join(tmpdir(), 'dormouse-outside-'))
    try {
      await mkdir(join(outside, 'd'))
      await writeFile(join(outside, 'd/f'), Buffer.alloc(1_000_000))
      const own = await bench.volume()
      const [sleeper, hostile] = [await bench.mounting(own), await bench.mounting(own)]
      const open = 'import os; os.mkdir("/data/d"); f = open("/data/d/f", "w+"); f.write("mine"); f.flush()'
      expect(await printed(sleeper, open)).toBe('')
      const { snapshot } = await bench.engine.snapshot(sleeper, { leave: 'gone' })
      const swap = `import os, shutil; shutil.rmtree("/data/d")
for up in ["${outside}/d", "../../../../../../..${outside}/d", "/proc/1/root${outside}/d"]:
    name = "/data/" + ("d" if not os.path.lexists("/data/d") else up.replace("/", "_"))
    os.symlink(up, name)`
      expect(await printed(hostile, swap)).toBe('')
      const woken = bench.hold(await bench.engine.restore(snapshot.id, { sandboxId: newSandboxId() }))
      expect(await printed(woken, 'print(os.fstat(f.fileno()).st_nlink, f.write("x"), f.flush())')).toBe(
        '0 1 None',
      )
      using measurement = await bench.engine.measureVolume(own)
      expect((await measurement.advance(20_000))?.bytes).toBeLessThan(500_000)
      await Promise.all([woken.destroy(), hostile.destroy()])
      await bench.engine.deleteSnapshot(snapshot.id)
      await bench.engine.deleteVolume(own)
      expect((await stat(join(outside, 'd/f'))).size).toBe(1_000_000)
    } finally {
      await rm(outside, { recursive: true })
    }
  })

  test('a volume shows no other files of the host, and its files belong to no user of the host', async () => {
    await writeFile(join(factory.layout.volumesDir, 'beside'), 'secret')
    const code = `import os
print(os.path.exists("/data/../beside"), os.listdir("/data"))
fd = os.open("/data", os.O_RDONLY | os.O_DIRECTORY)
print(os.listdir(os.open("..", os.O_RDONLY, dir_fd=fd)) == os.listdir("/"))
print(all("${factory.stateDir}" not in l.split(" - ")[1] for l in open("/proc/self/mountinfo")))
open("/data/setuid", "w").write("x"); os.chmod("/data/setuid", 0o6755)
print([f(*a) for f, a in [(os.system, ("mknod /data/null c 1 3 2>/dev/null",))] if f(*a) == 0])`
    expect(await printed(writer, code)).toBe('False []\nTrue\nTrue\n[]')
    expect(await stat(join(volumeDir(id), 'setuid'))).toMatchObject({ uid: 100_000, gid: 100_000 })
    await rm(join(factory.layout.volumesDir, 'beside'))
  })
})
