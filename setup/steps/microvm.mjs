import { existsSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { debianPackagesStep } from '../debian-packages.mjs'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const NATIVE = 'packages/engine-microvm/native'
/** Some of its files are compiled into these programs, too. */
const LINUX_SOURCES = 'packages/engine-linux/native/src'
const PROGRAMS = [
  ...['dormouse-guest-init', 'dormouse-jail', 'dormouse-vm-pages', 'libdormouse-vm-memory.so'],
  ...['dormouse-volume-server', 'dormouse-mapped-root'],
]

const qemu = debianPackagesStep({
  id: 'microvm-packages',
  title: 'QEMU',
  packages: [
    ['qemu-system-x86', 'qemu-system-x86_64'],
    ['qemu-utils', 'qemu-img'],
    ['e2fsprogs', 'mke2fs'],
  ],
})

/** @type {import('../run-steps.mjs').Step} */
const programs = {
  id: 'microvm-native',
  title: 'Programs for virtual machines',
  scope: 'repo',
  hint: 'The C sources do not compile here. See the output above.',
  inputs: ({ repoDir }) =>
    hashOf(process.arch, hashFiles(join(repoDir, NATIVE)), hashFiles(join(repoDir, LINUX_SOURCES))),
  isInPlace: ({ repoDir }) => PROGRAMS.every((name) => existsSync(join(repoDir, NATIVE, 'build', name))),
  async run({ report, run }, { repoDir }) {
    const onLine = (/** @type {string} */ line) => report({ doing: line })
    await run({ argv: ['make', '-C', join(repoDir, NATIVE), 'all'], onLine })
  },
}

/** @type {import('../run-steps.mjs').Step} */
const guestKernel = {
  id: 'microvm-kernel',
  title: 'Kernel of virtual machines',
  scope: 'data',
  hint: 'Check the network, or name the .deb of the kernel with DORMOUSE_GUEST_KERNEL_DEB=FILE.',
  // A file that the operator names now may be a better one than what was there.
  inputs: ({ repoDir }) =>
    hashOf(
      hashFiles(join(repoDir, 'packages/engine-microvm/src/template')),
      process.env.DORMOUSE_GUEST_KERNEL_DEB ?? '',
    ),
  async isInPlace({ dataDir }) {
    const { findGuestKernel } = await import('@dormouse/engine-microvm')
    return findGuestKernel(join(dataDir, 'microvm', 'kernel')) !== undefined
  },
  async run({ report }, { dataDir }) {
    const { installGuestKernel } = await import('@dormouse/engine-microvm')
    const { DORMOUSE_GUEST_KERNEL_DEB: deb } = process.env
    await installGuestKernel(join(dataDir, 'microvm', 'kernel'), {
      deb: deb === undefined || deb === '' ? undefined : resolve(deb),
      onLine: (line) => report({ doing: line }),
    })
  },
}

/** What sandboxes with isolation `microvm` need. Only installed when it is asked for. */
export const MICROVM_STEPS = [qemu, programs, guestKernel]

/**
 * The machine that the tests start from. Without it, each of their processes would boot one at the same time, which
 * takes minutes under emulation. What these inputs do not show (the template, the frequency of the processor) is part of
 * its name: then the tests boot another one.
 * @type {import('../run-steps.mjs').Step}
 */
export const testMachine = {
  id: 'microvm-test-machine',
  title: 'Virtual machine for tests',
  scope: 'data',
  hint: 'Read the reason above, then run this again.',
  inputs: ({ repoDir }) => {
    const made = ['packages/engine-microvm/src', NATIVE, LINUX_SOURCES, 'packages/guest/python', 'templates']
    return hashOf(...made.map((path) => hashFiles(join(repoDir, path))))
  },
  isInPlace: ({ dataDir }) => readdirSync(join(dataDir, 'microvm', 'templates')).length > 0,
  async run(_work, { dataDir }) {
    const { MicrovmEngine } = await import('@dormouse/engine-microvm')
    // Tests import no modules ahead.
    const engine = await MicrovmEngine.open({ dataDir, preload: [] })
    await engine.prepareTemplate('python', 1024 ** 3)
    await engine[Symbol.asyncDispose]()
  },
}
