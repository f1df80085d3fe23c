import { existsSync, readdirSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { hashFile, runCommand, runCommandOrFail } from '@dormouse/engine-linux/for-engines'
import { GUEST_MODULES } from './build-initrd.ts'

/** The build of Debian's cloud kernel that guests run. To change it, run the contract suite with it first. */
export const KERNEL_PIN = {
  release: '6.1.0-50-cloud-amd64',
  version: '6.1.176-1',
  sha256: 'efe19f605b6f54a8352e68d85a629abb2d30b72a085faef603a9152590baa791',
} as const

const IMAGE = 'vmlinuz-'
const PACKAGE = `linux-image-${KERNEL_PIN.release}`
const PIN_DIRECTORY = KERNEL_PIN.sha256.slice(0, 16)
/** The package that names the newest of them. */
const NEWEST = 'linux-image-cloud-amd64'
const NEWEST_NAME = /\b(linux-image-\d[\w.+~-]*-cloud-amd64) \(/

export interface GuestKernel {
  /** As `uname` says it. */
  readonly release: string
  /** Whether it is the one that this version was tested with. */
  readonly isPinned: boolean
  readonly image: string
  readonly modulesDir: string
}

/** Those that set-up has installed: the pinned one first, then others, newest first. */
export function listGuestKernels(kernelDir: string): readonly GuestKernel[] {
  const names = existsSync(kernelDir) ? readdirSync(kernelDir).filter((name) => !name.startsWith('.')) : []
  const found = names.flatMap((name) => kernelIn(join(kernelDir, name), name === PIN_DIRECTORY) ?? [])
  const inOrder = (one: GuestKernel, other: GuestKernel) =>
    Number(other.isPinned) - Number(one.isPinned) ||
    other.release.localeCompare(one.release, 'en', { numeric: true })
  return found.sort(inOrder)
}

/** The one that new guests get. Undefined when set-up has installed none. */
export function findGuestKernel(kernelDir: string): GuestKernel | undefined {
  return listGuestKernels(kernelDir)[0]
}

/**
 * Downloads and unpacks the pinned kernel. apt checks Debian's signature; the file must also have the pinned checksum.
 * Where Debian no longer has it, this gets the newest one that is signed, and says so. `deb` names a file that the
 * operator downloaded. Earlier kernels stay: snapshots of their guests need them. Throws `setup_failed`.
 */
export async function installGuestKernel(
  kernelDir: string,
  { deb, onLine }: { deb?: string | undefined; onLine?: (line: string) => void } = {},
): Promise<GuestKernel> {
  const found = findGuestKernel(kernelDir)
  if (found?.isPinned) return found
  const work = join(kernelDir, `.installing-${process.pid}`)
  await rm(work, { recursive: true, force: true })
  await mkdir(work, { recursive: true, mode: 0o711 })
  try {
    const { file, isNewest } =
      deb === undefined ? await download(work, onLine) : { file: deb, isNewest: false }
    const sum = await hashFile(file)
    if (!isNewest && sum !== KERNEL_PIN.sha256)
      throw new DormouseError('setup_failed', `${PACKAGE} has SHA-256 ${sum}, not ${KERNEL_PIN.sha256}.`, {
        hint: 'Name a file with that checksum with DORMOUSE_GUEST_KERNEL_DEB=FILE.',
      })
    const unpacked = join(work, 'unpacked')
    await runCommandOrFail({ argv: ['dpkg-deb', '--extract', file, unpacked] }, 'unpacking the guest kernel')
    requireDrivers(kernelIn(unpacked, false), basename(file))
    const final = join(kernelDir, sum.slice(0, 16))
    await rename(unpacked, final).catch((error: NodeJS.ErrnoException) => {
      // Another process installed it at the same time.
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
    return kernelIn(final, !isNewest) as GuestKernel
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function download(
  work: string,
  onLine: (line: string) => void = () => {},
): Promise<{ file: string; isNewest: boolean }> {
  const pinned = `${PACKAGE}=${KERNEL_PIN.version}`
  try {
    return { file: await fetchPackage(pinned, work, onLine), isNewest: false }
  } catch (error) {
    const { stdout } = await runCommand({ argv: ['apt-cache', 'show', '--no-all-versions', NEWEST] })
    const name = NEWEST_NAME.exec(/^Depends: (.*)$/m.exec(stdout)?.[1] ?? '')?.[1]
    // Without a network, or without lists of packages, the pinned one is as far away as any other.
    if (name === undefined || name === PACKAGE) throw error
    onLine(`Debian no longer has ${pinned}: guests get ${name}, which this version was not tested with`)
    return { file: await fetchPackage(name, work, onLine), isNewest: true }
  }
}

async function fetchPackage(name: string, work: string, onLine: (line: string) => void): Promise<string> {
  const argv = ['apt-get', '-o', 'APT::Sandbox::User=root', 'download', name] as const
  await runCommandOrFail({ argv, cwd: work, onLine }, 'downloading the guest kernel')
  const file = (await readdir(work)).find((entry) => entry.endsWith('.deb'))
  if (file === undefined) throw new DormouseError('setup_failed', `apt-get did not download ${name}.`)
  return join(work, file)
}

/** Another release of Debian may have them elsewhere, or compressed. */
function requireDrivers(kernel: GuestKernel | undefined, name: string): void {
  const missing = GUEST_MODULES.find((path) => !existsSync(join(kernel?.modulesDir ?? '/', path)))
  if (kernel === undefined || missing !== undefined)
    throw new DormouseError('setup_failed', `Guests cannot run ${name}: it has no ${missing ?? 'kernel'}.`, {
      hint: `Name the file of ${PACKAGE} ${KERNEL_PIN.version} with DORMOUSE_GUEST_KERNEL_DEB=FILE.`,
    })
}

function kernelIn(directory: string, isPinned: boolean): GuestKernel | undefined {
  const boot = join(directory, 'boot')
  const image = existsSync(boot) ? readdirSync(boot).find((name) => name.startsWith(IMAGE)) : undefined
  if (image === undefined) return undefined
  const release = image.slice(IMAGE.length)
  const modulesDir = join(directory, 'lib/modules', release, 'kernel')
  return { release, isPinned, image: join(boot, image), modulesDir }
}
