import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { shareTemplate } from '../snapshot/small-disk.ts'
import { HERE, ServerProcess } from './server-process.ts'

const exec = promisify(execFile)

export interface SmallDiskServer {
  readonly server: ServerProcess
  readonly dataDir: string
  cleanUp(): Promise<void>
}

/** A real server whose data directory is a file system of its own, of this size. */
export async function startOnSmallDisk(
  { bytes, inodes }: { bytes: number; inodes: number },
  config: object = {},
): Promise<SmallDiskServer> {
  const scratch = await mkdtemp(join(tmpdir(), 'dormouse-small-'))
  const image = join(scratch, 'image')
  const toolsDir = join(scratch, 'data')
  await shareTemplate(toolsDir)
  let dataDir = ''
  const prepare = async (directory: string) => {
    dataDir = directory
    await exec('truncate', ['-s', String(bytes), image])
    await exec('mkfs.ext4', ['-q', '-m', '0', '-N', String(inodes), image])
    await exec('mount', ['-o', 'loop', image, directory])
    await rm(join(directory, 'lost+found'), { recursive: true })
  }
  const unmount = async () => {
    if (dataDir !== '') await exec('umount', ['--lazy', dataDir])
    await rm(scratch, { recursive: true, force: true })
  }
  const server = await ServerProcess.start(config, { ...HERE, toolsDir, prepare }).catch(async (error) => {
    await unmount()
    throw error
  })
  return {
    server,
    dataDir,
    async cleanUp() {
      try {
        await server.clear()
      } finally {
        await server.kill()
        await unmount()
        await server.cleanUp()
      }
    },
  }
}
