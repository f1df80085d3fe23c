import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId, newVolumeId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type LinuxFactory, linuxFactory } from './linux-factory.ts'

const run = promisify(execFile)
const MIB = 1024 ** 2

async function makeDisk(dir: string): Promise<string> {
  const image = join(dir, 'ext4.img')
  await run('truncate', ['-s', '96M', image])
  await run('mkfs.ext4', ['-q', '-O', 'quota,project', '-E', 'quotatype=prjquota', image])
  return image
}

async function mount(image: string, at: string): Promise<void> {
  await mkdir(at, { recursive: true })
  await run('mount', ['-o', 'loop,prjquota', image, at])
}

/** A kernel without CONFIG_QFMT_V2 cannot mount such a file system. */
async function canEnforce(): Promise<boolean> {
  const dir = await mkdtemp(join(tmpdir(), 'dormouse-test-'))
  try {
    await mount(await makeDisk(dir), join(dir, 'at'))
    await run('umount', [join(dir, 'at')])
    return true
  } catch {
    return false
  } finally {
    await rm(dir, { recursive: true })
  }
}

// Skip: needs a kernel with CONFIG_QFMT_V2, such as Debian's.
describe.skipIf(!(await canEnforce()))('volumes on ext4 with project quotas', () => {
  let factory: LinuxFactory
  let engine: Engine
  let burrow: Burrow
  const [small, other] = [newVolumeId(), newVolumeId()]

  beforeAll(async () => {
    factory = await linuxFactory()
    await mount(await makeDisk(factory.stateDir), factory.layout.volumesDir)
    engine = await factory.open()
    expect(await engine.createVolume(small, { bytes: 2 * MIB, files: 20 })).toBe('hard')
    expect(await engine.createVolume(other, { bytes: 20 * MIB, files: 100 })).toBe('hard')
    const at = (volumeId: typeof small, path: string) => ({ volumeId, path, readOnly: false })
    const volumes = [at(small, '/small'), at(other, '/other')]
    burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', volumes })
  })

  afterAll(async () => {
    await engine[Symbol.asyncDispose]()
    await factory.dispose()
    await run('umount', [factory.layout.volumesDir])
    await factory.cleanUp()
  })

  const write = async (path: string, mib: number) =>
    (
      await burrow.guest.runs.run({
        code: `import errno
try: open(${JSON.stringify(path)}, 'wb', buffering=0).write(b'x' * (${mib} << 20)); print('written')
except OSError as error: print(errno.errorcode[error.errno])`,
      })
    ).stdout.trim()

  test('code inside that fills a volume gets an error, and other volumes take their own', async () => {
    await write('/small/a', 1)
    await write('/small/b', 8)
    expect(await write('/small/c', 1)).toBe('EDQUOT')
    expect(await write('/other/a', 8)).toBe('written')
    using measurement = await engine.measureVolume(small)
    const use = await measurement.advance(5_000)
    expect(use?.bytes).toBeGreaterThan(MIB)
    expect(use?.bytes).toBeLessThanOrEqual(2 * MIB)
  })

  test('a raised limit makes room, and a clone that does not fit is refused', async () => {
    expect(await engine.limitVolumes([{ volumeId: small, bytes: 12 * MIB, files: 20 }])).toEqual(
      new Set([small]),
    )
    expect(await write('/small/c', 8)).toBe('written')
    const clone = engine.cloneVolume({ from: small, to: newVolumeId(), limits: { bytes: MIB, files: 20 } })
    await expect(clone).rejects.toThrow()
    expect(await engine.listVolumes()).toHaveLength(2)
  })
})
