import { execFile, spawnSync } from 'node:child_process'
import { cp, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { readAptSettings } from '../../packages/engine-linux/src/template/host-apt.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const BASE = 'docker.io/library/debian:trixie-slim'
/** Certificates that this machine trusts besides Debian's: those of a proxy, for example. */
const OWN_CERTIFICATES = '/usr/local/share/ca-certificates'
const OUTPUT_MAX_BYTES = 64 * 1024 ** 2

export const hasBuildah = spawnSync('buildah', ['--version']).status === 0

export interface Image {
  /** The files of the image, mounted. */
  readonly rootfs: string
  remove(): Promise<void>
}

/**
 * Builds deploy/Dockerfile with buildah. Its base image is made here, of the same packages as Debian's, with the package
 * sources of this machine.
 */
export async function buildImage(directory: string): Promise<Image> {
  const storage = ['--root', join(directory, 'images'), '--runroot', join(directory, 'images-run')]
  const buildah = async (...args: string[]) => await run('buildah', [...storage, ...args])
  const base = join(directory, 'base')
  await makeBase(base, directory)
  const empty = await buildah('from', 'scratch')
  await buildah('add', '--quiet', empty, base, '/')
  await buildah('config', '--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', empty)
  await buildah('commit', '--quiet', '--rm', empty, BASE)
  await rm(base, { recursive: true })
  await buildah(
    ...['build', '--isolation', 'chroot', '--pull-never', '--file', join(root, 'deploy/Dockerfile')],
    ...['--ignorefile', join(root, 'deploy/Dockerfile.dockerignore'), '--tag', 'dormouse', root],
  )
  const container = await buildah('from', '--pull-never', 'dormouse')
  return {
    rootfs: await buildah('mount', container),
    remove: async () => {
      await buildah('rm', '--all')
      await buildah('rmi', '--all', '--force')
    },
  }
}

async function makeBase(base: string, workDir: string): Promise<void> {
  const { sources } = await readAptSettings({ suite: 'trixie', workDir })
  await run('mmdebstrap', ['--variant=minbase', 'trixie', base, ...sources])
  await rm(join(base, 'var/lib/apt/lists'), { recursive: true })
  await mkdir(join(base, OWN_CERTIFICATES), { recursive: true })
  await cp(OWN_CERTIFICATES, join(base, OWN_CERTIFICATES), { recursive: true })
}

async function run(program: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { maxBuffer: OUTPUT_MAX_BYTES })
  return stdout.trim().split('\n').at(-1) ?? ''
}
