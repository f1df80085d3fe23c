import { access } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import { type CommandResult, inOwnNamespaces, runCommandOrFail } from '../host/run-command.ts'
import { ownProgram, shiftProgram } from '../native-programs.ts'

/** The host uid (and gid) of root inside a sandbox, and how many ids a sandbox has. */
export const UID_BASE = 100_000
export const UID_COUNT = 65_536

// mmdebstrap empties /run and /tmp and leaves out /dev. This makes the mount points of burrows.
const MAKE_MOUNT_POINTS = `
set -eu
mkdir -p /.dormouse /proc /sys /dev /run/shm /tmp
rm -rf /dev/*
chmod 755 /.dormouse /dev /run
chmod 555 /proc /sys
chmod 1777 /tmp /run/shm
`

// A template that fails one of these checks would break sandboxes much later.
const VERIFY = `
set -eu
python3 -B -c 'import IPython'
[ "$(id -u user)" = 1000 ]
[ "$(stat -c %U:%a /usr/bin/su)" = root:4755 ]
[ "$(stat -c %U /)" = root ]
[ "$(stat -c %U /home/user)" = user ]
`

/**
 * Gives a root file system that root of the host built to sandboxes: shifts its owners, makes mount points and checks
 * it. Setuid bits stay, and file capabilities become valid only inside such a namespace.
 */
export async function shiftRoot(rootfs: string, signal?: AbortSignal): Promise<void> {
  await access(ownProgram).catch((cause) => {
    throw new DormouseError('setup_failed', 'The native programs are not built', {
      hint: 'Run `./dormouse up`: it builds them first.',
      cause,
    })
  })
  await runCommandOrFail(
    { argv: [ownProgram, String(UID_BASE), String(UID_COUNT), rootfs], signal },
    'shifting the owners of the template',
  )
  for (const script of [MAKE_MOUNT_POINTS, VERIFY]) {
    await chrootShifted(rootfs, ['/bin/sh', '-c', script], 'finishing the template', signal)
  }
}

/** Runs a program of a root file system as its root. Pre: root of the host built that file system. */
export function chrootShifted(
  rootfs: string,
  argv: readonly string[],
  doing: string,
  signal?: AbortSignal,
): Promise<CommandResult> {
  return runCommandOrFail({ argv: asShiftedRoot(['chroot', rootfs, ...argv]), signal }, doing)
}

function asShiftedRoot(argv: readonly string[]): [string, ...string[]] {
  return inOwnNamespaces([shiftProgram, String(UID_BASE), String(UID_COUNT), '--', ...argv])
}
