import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, realpath, rm, statfs, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Layout } from '../../packages/engine-linux/src/burrow/layout.ts'
import { testDataDir } from '../test-data-dir.ts'

const run = promisify(execFile)
const MB = 1024 ** 2
const DISK_BYTES = 512 * MB
const DATA_BYTES = 48 * MB

/** A disk of its own that can be filled up. */
const scratch = await mkdtemp(join(tmpdir(), 'dormouse-full-'))
const stateDir = join(scratch, 'disk')
const dataDir = join(scratch, 'data')
const ballast = join(stateDir, 'ballast')
const layout = new Layout(stateDir, dataDir)
let engine: LinuxEngine
let burrow: Burrow

beforeAll(async () => {
  await run('truncate', ['-s', String(DISK_BYTES), join(scratch, 'image')])
  await run('mkfs.ext4', ['-q', '-m', '0', join(scratch, 'image')])
  await run('mkdir', [stateDir])
  await run('mount', ['-o', 'loop', join(scratch, 'image'), stateDir])
  await shareTemplate()
  engine = await LinuxEngine.open({ dataDir, stateDir })
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  const code = `import hashlib, os; data = bytearray(os.urandom(${DATA_BYTES})); digest = hashlib.sha256(data).digest(); ticks = 0`
  await burrow.guest.runs.run({ code })
})

afterAll(async () => {
  await burrow?.destroy()
  await engine?.[Symbol.asyncDispose]()
  await run('umount', [stateDir])
  await rm(scratch, { recursive: true })
  await rm(layout.runDir, { recursive: true, force: true })
})

/** Without its snapshot: memory files cannot be shared with another disk, so here burrows boot. */
async function shareTemplate(): Promise<void> {
  const build = await realpath(join(testDataDir, 'templates/python/current'))
  const own = join(dataDir, 'templates/python', basename(build))
  await mkdir(own, { recursive: true })
  for (const name of ['rootfs', 'template.json']) await symlink(join(build, name), join(own, name))
  await symlink(basename(build), join(dataDir, 'templates/python/current'))
  await symlink(join(testDataDir, 'tools'), join(dataDir, 'tools'))
}

/** Leaves this much room. */
async function fillUpTo(freeBytes: number): Promise<void> {
  await rm(ballast, { force: true })
  const { bavail, bsize } = await statfs(stateDir)
  await run('fallocate', ['-l', String(bavail * bsize - freeBytes), ballast])
}

async function expectWell(): Promise<void> {
  const code = 'ticks += 1; print(hashlib.sha256(data).digest() == digest, ticks)'
  const before = await burrow.guest.runs.run({ code })
  expect(before.stdout).toMatch(/^True \d+\n$/)
}

describe('disk full while a snapshot is taken', () => {
  // Nothing fits; the dump does not fit; the dump fits, and what is made of it does not.
  test.each([16 * 1024, ...[1, 8, 30, 50, 60, 70, 80, 90, 100, 120, 140, 160, 200].map((size) => size * MB)])(
    'with %i bytes left: the sandbox runs on, nothing is left over, and the error says why',
    async (freeBytes) => {
      await fillUpTo(freeBytes)
      const before = [await readdir(layout.snapshotsDir), await readdir(layout.layersDir)]
      const outcome = await engine.snapshot(burrow, { leave: 'running' }).catch((error: unknown) => error)
      if (outcome instanceof Error) {
        expect(outcome).toMatchObject({ code: 'no_space' })
        expect([await readdir(layout.snapshotsDir), await readdir(layout.layersDir)]).toEqual(before)
        await rm(ballast)
      } else {
        await rm(ballast)
        const { snapshot, burrow: next } = outcome as Awaited<ReturnType<LinuxEngine['snapshot']>>
        burrow = next!
        await engine.deleteSnapshot(snapshot.id)
      }
      await expectWell()
      await writeFile(join(stateDir, 'probe'), 'there is room again')
    },
  )

  test('with room again it works', async () => {
    const { burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
    burrow = next!
    await expectWell()
  })
})
