import { newSandboxId, newVolumeId, type VolumeId } from '@dormouse/contracts'
import { afterAll, describe, expect, test } from 'vitest'
import type { Burrow, VolumeMount } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { forkBurrow } from './fork-burrow.ts'
import { type SharedBurrow, useSharedBurrow } from './shared-burrow.ts'

export interface VolumeBench extends SharedBurrow {
  /** Creates a volume, which is removed after the tests. */
  volume(): Promise<VolumeId>
  /** Creates a burrow that mounts the volumes, by default at /data and writable. */
  mounting(...volumes: (VolumeId | VolumeMount)[]): Promise<Burrow>
}

export function useVolumes(factory: EngineFactory): VolumeBench {
  const volumes: VolumeId[] = []
  // Hooks run in reverse order: volumes are deleted after the burrows.
  afterAll(async () => {
    await using engine = await factory.open()
    for (const id of volumes) await engine.deleteVolume(id)
  })
  const shared = useSharedBurrow(factory)
  return {
    get engine() {
      return shared.engine
    },
    get burrow() {
      return shared.burrow
    },
    get guest() {
      return shared.guest
    },
    create: (request) => shared.create(request),
    hold: (burrow) => shared.hold(burrow),
    async volume() {
      const id = newVolumeId()
      volumes.push(id)
      await shared.engine.createVolume(id)
      return id
    },
    mounting: (...mounts) =>
      shared.create({
        volumes: mounts.map((mount) =>
          typeof mount === 'string' ? { volumeId: mount, path: '/data', readOnly: false } : mount,
        ),
      }),
  }
}

/** The output of code, or the error that it ended with. */
export async function printed(burrow: Burrow, code: string): Promise<string> {
  const { stdout, error } = await burrow.guest.runs.run({ code })
  return error === undefined ? stdout.trim() : `${error.name}: ${error.message}`
}

export function describeVolumes(factory: EngineFactory): void {
  describe('volumes', () => {
    const bench = useVolumes(factory)
    const write = (burrow: Burrow, text: string, path = '/data/note') =>
      printed(burrow, `print(open(${JSON.stringify(path)}, 'w').write(${JSON.stringify(text)}))`)
    const read = (burrow: Burrow, path = '/data/note') =>
      printed(burrow, `print(open(${JSON.stringify(path)}).read())`)

    test('burrows see each other’s writes at once, and root and user may write', async () => {
      const id = await bench.volume()
      const [one, other] = [await bench.mounting(id), await bench.mounting(id)]
      expect(await write(one, 'from one')).toBe('8')
      expect(await read(other)).toBe('from one')
      expect(await write(other, 'from the other')).toBe('14')
      expect(await read(one)).toBe('from the other')
      const owner = 'import os; s = os.stat("/data"); print(s.st_uid, s.st_gid, oct(s.st_mode))'
      expect(await printed(one, owner)).toBe('0 0 0o40755')
    })

    test('a volume mounted read-only cannot be changed in any way', async () => {
      const id = await bench.volume()
      const writer = await bench.mounting(id)
      await write(writer, 'written')
      const reader = await bench.mounting({ volumeId: id, path: '/data', readOnly: true })
      expect(await read(reader)).toBe('written')
      expect(await write(reader, 'changed')).toMatch(/^OSError.*Read-only/)
      for (const line of ['os.remove("/data/note")', 'os.mkdir("/data/x")', 'os.chmod("/data", 0)'])
        expect(await printed(reader, `import os; ${line}`)).toMatch(/^OSError.*Read-only/)
      await expect(reader.guest.files.write('/data/note', Buffer.from('x'))).rejects.toThrow()
      expect(await read(writer)).toBe('written')
    })

    test('files on a volume can be executed, but give no privileges and no devices', async () => {
      const burrow = await bench.mounting(await bench.volume())
      const code = `import subprocess, os
open("/data/run", "w").write("#!/bin/sh\\necho ran")
os.chmod("/data/run", 0o4755)
print(subprocess.check_output(["/data/run"], text=True).strip())
print([line.split()[5] for line in open("/proc/self/mountinfo") if line.split()[4] == "/data"])`
      const [ran, options] = (await printed(burrow, code)).split('\n')
      expect(ran).toBe('ran')
      expect(options).toMatch(/rw,.*nosuid,nodev/)
    })

    test('contents survive every burrow, sleep, fork and rollback', async () => {
      const id = await bench.volume()
      const first = await bench.mounting(id)
      await write(first, 'zero')
      const { snapshot, burrow: awake } = await bench.engine.snapshot(first, { leave: 'running' })
      expect(snapshot.volumes).toEqual([{ volumeId: id, path: '/data', readOnly: false }])
      bench.hold(awake!)
      await write(awake!, 'one')
      const { parent, children } = await forkBurrow(bench.engine, awake!, { sandboxIds: [newSandboxId()] })
      const child = bench.hold(children[0]!)
      bench.hold(parent)
      expect(await read(child)).toBe('one')
      await write(child, 'two')
      expect(await read(parent)).toBe('two')
      const back = bench.hold(await bench.engine.rollback(parent, snapshot.id))
      expect(await read(back)).toBe('two')
      await Promise.all([back.destroy(), child.destroy()])
      expect(await read(await bench.mounting(id))).toBe('two')
    })

    test('a read-only mount stays read-only after a wake and in forks', async () => {
      const id = await bench.volume()
      const burrow = await bench.mounting({ volumeId: id, path: '/mnt/ro', readOnly: true })
      const { parent, children } = await forkBurrow(bench.engine, burrow, { sandboxIds: [newSandboxId()] })
      for (const each of [parent, ...children]) {
        bench.hold(each)
        expect(await write(each, 'x', '/mnt/ro/note')).toMatch(/Read-only/)
      }
    })

    test('a snapshot can be restored with other volumes', async () => {
      const [one, other] = [await bench.volume(), await bench.volume()]
      const burrow = await bench.mounting(one)
      await write(burrow, 'one')
      const { snapshot } = await bench.engine.snapshot(burrow, { leave: 'gone' })
      const restore = async (volumes: readonly VolumeMount[]) =>
        bench.hold(await bench.engine.restore(snapshot.id, { sandboxId: newSandboxId(), volumes }))
      const swapped = await restore([{ volumeId: other, path: '/data', readOnly: false }])
      expect(await printed(swapped, 'import os; print(os.listdir("/data"))')).toBe('[]')
      const moved = await restore([{ volumeId: one, path: '/elsewhere/deep', readOnly: true }])
      expect(await read(moved, '/elsewhere/deep/note')).toBe('one')
      expect(await printed(moved, 'print(os.listdir("/data"))')).toMatch(/NameError|\[\]/)
      await bench.engine.deleteSnapshot(snapshot.id)
    })

    test('missing parent directories are created, owned by root', async () => {
      const id = await bench.volume()
      const burrow = await bench.mounting({ volumeId: id, path: '/mnt/a b/c', readOnly: false })
      const code =
        'import os; s = os.stat("/mnt/a b"); print(s.st_uid, oct(s.st_mode), os.path.ismount("/mnt/a b/c"))'
      expect(await printed(burrow, code)).toBe('0 0o40755 True')
    })

    test('paths that overlap, leave the sandbox or hide needed files are refused', async () => {
      const [one, other] = [await bench.volume(), await bench.volume()]
      const mount = (volumeId: VolumeId, path: string): VolumeMount => ({ volumeId, path, readOnly: false })
      const before = (await factory.traces()).length
      for (const bad of [
        '/',
        'data',
        '/a/../b',
        '/proc/x',
        '/sys',
        '/dev/x',
        '/.dormouse/run',
        '/a//b',
        '/a/',
      ])
        await expect(bench.mounting(mount(one, bad)), bad).rejects.toMatchObject({ code: 'invalid_argument' })
      for (const [first, second] of [
        ['/a', '/a'],
        ['/a', '/a/b'],
        ['/a/b', '/a'],
      ] as const)
        await expect(bench.mounting(mount(one, first), mount(other, second))).rejects.toMatchObject({
          code: 'invalid_argument',
        })
      for (const used of ['/usr', '/usr/lib', '/etc/passwd', '/etc/passwd/x', '/bin/x'])
        await expect(bench.mounting(mount(one, used)), used).rejects.toMatchObject({
          code: 'invalid_argument',
        })
      await expect(bench.mounting(mount(newVolumeId(), '/a'))).rejects.toMatchObject({ code: 'not_found' })
      expect(await factory.traces()).toHaveLength(before)
    })

    test('a volume is deleted with its content, but not while a burrow mounts it', async () => {
      const id = await bench.volume()
      await expect(bench.engine.createVolume(id)).rejects.toMatchObject({ code: 'already_exists' })
      const burrow = await bench.mounting(id)
      await write(burrow, 'x'.repeat(100_000))
      using measurement = await bench.engine.measureVolume(id)
      const use = await measurement.advance(20_000)
      expect(use).toMatchObject({ files: 1, isWhole: true })
      expect(use?.bytes).toBeGreaterThanOrEqual(100_000)
      await expect(bench.engine.deleteVolume(id)).rejects.toMatchObject({ code: 'in_use' })
      expect(await bench.engine.listVolumes()).toContain(id)
      await burrow.destroy()
      await bench.engine.deleteVolume(id)
      await bench.engine.deleteVolume(id)
      expect(await bench.engine.listVolumes()).not.toContain(id)
      await expect(bench.engine.measureVolume(id)).rejects.toMatchObject({ code: 'not_found' })
    })
  })
}
