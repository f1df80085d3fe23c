import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { debianPackagesStep } from '../debian-packages.mjs'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

const NATIVE = 'packages/engine-microvm/native'
const PROGRAMS = [
  ...['dormouse-guest-init', 'dormouse-jail', 'dormouse-vm-pages', 'libdormouse-vm-memory.so'],
  'dormouse-volume-server',
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
  inputs: ({ repoDir }) => hashOf(process.arch, hashFiles(join(repoDir, NATIVE))),
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
  inputs: ({ repoDir }) => hashOf(hashFiles(join(repoDir, 'packages/engine-microvm/src/template'))),
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
