import { existsSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { hashFile, runCommandOrFail } from '@dormouse/engine-linux/for-engines'

/** The build of Debian's cloud kernel that guests run. To change it, run the contract suite with it first. */
export const KERNEL_PIN = {
  release: '6.1.0-50-cloud-amd64',
  version: '6.1.176-1',
  sha256: 'efe19f605b6f54a8352e68d85a629abb2d30b72a085faef603a9152590baa791',
} as const

const PACKAGE = `linux-image-${KERNEL_PIN.release}`

export interface GuestKernel {
  readonly image: string
  readonly modulesDir: string
}

/** Returns undefined when set-up has not installed it. */
export function findGuestKernel(kernelDir: string): GuestKernel | undefined {
  const kernel = kernelIn(join(kernelDir, KERNEL_PIN.sha256.slice(0, 16)))
  return existsSync(kernel.image) ? kernel : undefined
}

/**
 * Downloads and unpacks the pinned kernel. apt checks Debian's signature; the file must also have the pinned checksum.
 * `deb` names a file that the operator downloaded. Throws `setup_failed`.
 */
export async function installGuestKernel(
  kernelDir: string,
  { deb, onLine }: { deb?: string | undefined; onLine?: (line: string) => void } = {},
): Promise<GuestKernel> {
  const found = findGuestKernel(kernelDir)
  if (found !== undefined) return found
  const work = join(kernelDir, `.installing-${process.pid}`)
  await rm(work, { recursive: true, force: true })
  await mkdir(work, { recursive: true, mode: 0o711 })
  try {
    const file = deb ?? (await download(work, onLine))
    const sum = await hashFile(file)
    if (sum !== KERNEL_PIN.sha256)
      throw new DormouseError('setup_failed', `${PACKAGE} has SHA-256 ${sum}, not ${KERNEL_PIN.sha256}.`, {
        hint: 'Name a file with that checksum with DORMOUSE_GUEST_KERNEL_DEB=FILE.',
      })
    const unpacked = join(work, 'unpacked')
    await runCommandOrFail({ argv: ['dpkg-deb', '--extract', file, unpacked] }, 'unpacking the guest kernel')
    const final = join(kernelDir, KERNEL_PIN.sha256.slice(0, 16))
    await rename(unpacked, final).catch((error: NodeJS.ErrnoException) => {
      // Another process installed it at the same time.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
    return kernelIn(final)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function download(work: string, onLine?: (line: string) => void): Promise<string> {
  const argv = [
    'apt-get',
    '-o',
    'APT::Sandbox::User=root',
    'download',
    `${PACKAGE}=${KERNEL_PIN.version}`,
  ] as const
  await runCommandOrFail({ argv, cwd: work, ...(onLine && { onLine }) }, 'downloading the guest kernel')
  const name = (await readdir(work)).find((entry) => entry.endsWith('.deb'))
  if (name === undefined) throw new DormouseError('setup_failed', `apt-get did not download ${PACKAGE}.`)
  return join(work, name)
}

function kernelIn(directory: string): GuestKernel {
  return {
    image: join(directory, 'boot', `vmlinuz-${KERNEL_PIN.release}`),
    modulesDir: join(directory, 'lib/modules', KERNEL_PIN.release, 'kernel'),
  }
}
