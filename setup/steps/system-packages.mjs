import { debianPackagesStep } from '../debian-packages.mjs'

/** What set-up, server and command line need. */
export const systemPackages = debianPackagesStep({
  id: 'system-packages',
  title: 'System packages',
  packages: [
    ['gcc', 'gcc'],
    ['make', 'make'],
    ['libc6-dev', '/usr/include/stdlib.h'],
    ['linux-libc-dev', '/usr/include/linux/sched.h'],
    ['libseccomp-dev', '/usr/include/seccomp.h'],
    ['zlib1g-dev', '/usr/include/zlib.h'],
    ['mmdebstrap', 'mmdebstrap'],
    ['debian-archive-keyring', '/usr/share/keyrings/debian-archive-keyring.gpg'],
    ['gpg', 'gpg'],
    ['tar', 'tar'],
    ['util-linux', 'setpriv'],
    // For `dormouse ssh`.
    ['openssh-client', 'ssh'],
  ],
})
