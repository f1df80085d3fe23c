import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { type CommandResult, inOwnNamespaces, runCommandOrFail } from '../host/run-command.ts'
import { nativeBuildDir } from '../native-programs.ts'

/** The host uid (and gid) of root inside a sandbox, and how many ids a sandbox has. */
export const UID_BASE = 100_000
export const UID_COUNT = 65_536

const SHIFT_PROGRAM = join(nativeBuildDir, 'dormouse-shift')

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

export interface UnpackShifted {
  readonly archive: string
  /** Exists, is empty and belongs to UID_BASE. */
  readonly rootfs: string
  readonly signal?: AbortSignal | undefined
}

/**
 * Unpacks as root of a user namespace whose ids start at UID_BASE. So the kernel stores shifted owners, keeps setuid
 * bits and writes file capabilities that are valid only inside such a namespace.
 */
export async function unpackShifted({ archive, rootfs, signal }: UnpackShifted): Promise<void> {
  await access(SHIFT_PROGRAM).catch((cause) => {
    throw new DormouseError('setup_failed', 'The native programs are not built', {
      hint: 'Run `./dormouse up`: it builds them first.',
      cause,
    })
  })
  const tar = ['tar', '--extract', '--file=-', '--preserve-permissions', '--same-owner', '--numeric-owner']
  const attributes = ['--xattrs', '--xattrs-include=*', `--directory=${rootfs}`]
  await runCommandOrFail(
    { argv: asShiftedRoot([...tar, ...attributes]), stdinFile: archive, signal },
    'unpacking the template',
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
  return inOwnNamespaces([SHIFT_PROGRAM, String(UID_BASE), String(UID_COUNT), '--', ...argv])
}
