import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommandOrFail } from '@dormouse/engine-linux/for-engines'
import { jailProgram } from '../native-programs.ts'
import { QEMU_IMG } from '../qemu/find-qemu.ts'

/** A machine opens every disk of its chain, and reads through all of them. */
export const CHAIN_MAX_DISKS = 16

export interface MergeDisks {
  /** Paths, lowest first: the root disk, and above it at least one. */
  readonly disks: readonly string[]
  readonly target: string
  /** Of the QEMU that wrote the disks. */
  readonly uid: number
}

/**
 * Writes one disk that stands for all disks above the root disk. A QEMU that its guest has taken over may have written
 * anything into them, such as the names of other files of the host. So they are read in a jail that has no other file.
 */
export async function mergeDisks({ disks, target, uid }: MergeDisks): Promise<void> {
  const inJail = disks.map((_path, index) => `/disks/${index}`)
  const [root = '', ...above] = inJail
  const file = (filename: string) => ({ driver: 'file', filename, locking: 'off' })
  const chain = above.reduce<object>((backing, path) => ({ driver: 'qcow2', file: file(path), backing }), {
    ...{ driver: 'raw', file: file(root) },
  })
  const empty = await mkdtemp(join(tmpdir(), 'dormouse-merge-'))
  try {
    await writeFile(target, '', { flag: 'wx', mode: 0o600 })
    await chown(target, uid, uid)
    const argv = [
      ...[jailProgram, '--wait', '--root', empty, '--uid', String(uid), '--ro', '/usr', '/usr'],
      ...['--link', 'usr/lib', '/lib', '--link', 'usr/lib64', '/lib64', '--rw', '/dev/null', '/dev/null'],
      ...disks.flatMap((path, index) => ['--ro', path, `/disks/${index}`]),
      ...['--rw', target, '/merged', '--', QEMU_IMG, 'convert', '-O', 'qcow2', '-B', root, '-F', 'raw'],
      ...[`json:${JSON.stringify(chain)}`, '/merged'],
    ] as [string, ...string[]]
    await runCommandOrFail({ argv }, 'merging the disks of a sandbox')
    await chown(target, 0, 0)
    await chmod(target, 0o644)
  } finally {
    await rm(empty, { recursive: true, force: true })
  }
}
