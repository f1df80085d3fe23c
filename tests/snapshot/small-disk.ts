import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, realpath, rm, statfs, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { testDataDir } from '../test-data-dir.ts'

const run = promisify(execFile)

/** A disk of its own that can be filled up, for an engine's state. */
export interface SmallDisk {
  readonly dataDir: string
  readonly stateDir: string
  readonly layout: Layout
  /** Leaves this much room. */
  fillUpTo(freeBytes: number): Promise<void>
  makeRoom(): Promise<void>
  remove(): Promise<void>
}

export async function makeSmallDisk(sizeBytes: number): Promise<SmallDisk> {
  const scratch = await mkdtemp(join(tmpdir(), 'dormouse-full-'))
  const stateDir = join(scratch, 'disk')
  const dataDir = join(scratch, 'data')
  const ballast = join(stateDir, 'ballast')
  const layout = new Layout(stateDir, dataDir)
  await run('truncate', ['-s', String(sizeBytes), join(scratch, 'image')])
  await run('mkfs.ext4', ['-q', '-m', '0', join(scratch, 'image')])
  await mkdir(stateDir)
  await run('mount', ['-o', 'loop', join(scratch, 'image'), stateDir])
  await shareTemplate(dataDir)
  return {
    dataDir,
    stateDir,
    layout,
    async fillUpTo(freeBytes) {
      await rm(ballast, { force: true })
      const { bavail, bsize } = await statfs(stateDir)
      const length = bavail * bsize - freeBytes
      if (length > 0) await run('fallocate', ['-l', String(length), ballast])
    },
    makeRoom: () => rm(ballast, { force: true }),
    async remove() {
      await run('umount', [stateDir])
      await rm(scratch, { recursive: true })
      await rm(layout.runDir, { recursive: true, force: true })
    },
  }
}

/** Without its snapshot: memory files cannot be shared with another disk, so here burrows boot. */
export async function shareTemplate(dataDir: string): Promise<void> {
  const build = await realpath(join(testDataDir, 'templates/python/current'))
  const own = join(dataDir, 'templates/python', basename(build))
  await mkdir(own, { recursive: true })
  for (const name of ['rootfs', 'template.json']) await symlink(join(build, name), join(own, name))
  await symlink(basename(build), join(dataDir, 'templates/python/current'))
  await symlink(join(testDataDir, 'tools'), join(dataDir, 'tools'))
}
