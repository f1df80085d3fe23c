import { existsSync } from 'node:fs'
import { chmod, chown, mkdtemp, open, rename, rm, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { FileTree } from '@dormouse/engine'
import { runCommandOrFail } from '@dormouse/engine-linux/for-engines'
import { mappedRootProgram } from '../native-programs.ts'
import { QEMU_IMG } from '../qemu/find-qemu.ts'

/** Part of the names: other sizes or options make other disks. */
const FORMAT = 'v2'
const TOOLS_FORMAT = 'v3'
/** In the directory of tools. Programs of a sandbox are started with it where it exists. */
const GUARD_LIBRARY = 'lib/libdormouse-guard.so'
const ROOT_DISK_BYTES = 10 * 1024 ** 3
const TOOLS_DISK_BYTES = 512 * 1024 ** 2
/** Sparse: only what is written takes space. */
const BYTES_PER_INODE = 16_384

/** An ext4 image of the files of a template, with the owners that the sandbox sees. Made once. */
export async function buildRootDisk(disksDir: string, tree: FileTree): Promise<string> {
  const { template, key, directories, uidBase, uidCount } = tree
  const path = join(disksDir, `root-${FORMAT}-${template}-${key}.ext4`)
  if (existsSync(path)) return path
  const mountPoint = await mkdtemp(join(disksDir, '.mount-'))
  try {
    return await buildDisk(path, {
      bytes: ROOT_DISK_BYTES,
      owner: uidBase,
      // mke2fs copies owners as it sees them, so it runs where the template's root is uid 0.
      prefix: [mappedRootProgram, String(uidBase), String(uidCount), directories.join(':'), mountPoint],
      options: ['-i', String(BYTES_PER_INODE), '-J', 'size=16', '-d', mountPoint],
    })
  } finally {
    await rmdir(mountPoint)
  }
}

const countsOf = new Map<string, Promise<number>>()

/** Files and directories that a root disk was made with. Pre: `path` is a disk of `buildRootDisk`. */
export function countFiles(path: string): Promise<number> {
  const known = countsOf.get(path) ?? readCount(path)
  countsOf.set(path, known)
  known.catch(() => countsOf.delete(path))
  return known
}

async function readCount(path: string): Promise<number> {
  const { stdout } = await runCommandOrFail(
    { argv: ['dumpe2fs', '-h', path] },
    'counting the files of a disk',
  )
  const [all, free] = ['Inode count', 'Free inodes'].map((name) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)$`, 'm').exec(stdout)?.[1]),
  )
  if (all === undefined || free === undefined || Number.isNaN(all - free))
    throw new Error(`dumpe2fs does not say how many files ${path} has`)
  return all - free
}

/** What guests see at /.dormouse: the code of the agent and its kernels, and the Python that agents of images run on. */
export async function buildToolsDisk(disksDir: string, toolsDir: string): Promise<string> {
  const path = join(disksDir, `tools-${TOOLS_FORMAT}-${basename(toolsDir)}.ext4`)
  if (existsSync(path)) return path
  const copy = await mkdtemp(join(disksDir, '.tools-'))
  try {
    await runCommandOrFail(
      { argv: ['cp', '-a', '--reflink=auto', `${toolsDir}/.`, copy] },
      'copying the tools',
    )
    // The guard hides what changes when processes are restored. In a machine nothing of that changes.
    await rm(join(copy, GUARD_LIBRARY), { force: true })
    const options = ['-O', '^has_journal', '-d', copy]
    return await buildDisk(path, { bytes: TOOLS_DISK_BYTES, owner: 0, prefix: [], options })
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

/** An empty disk to write to: every burrow gets a copy. It has no more than a header. */
export async function buildEmptyDisk(disksDir: string): Promise<string> {
  const path = join(disksDir, `empty-${FORMAT}.qcow2`)
  if (existsSync(path)) return path
  const work = `${path}.${process.pid}`
  const argv = [QEMU_IMG, 'create', '-q', '-f', 'qcow2', work, String(ROOT_DISK_BYTES)] as const
  await runCommandOrFail({ argv }, 'making an empty disk')
  await rename(work, path)
  return path
}

interface Disk {
  readonly bytes: number
  readonly owner: number
  readonly prefix: readonly string[]
  readonly options: readonly string[]
}

/** Two processes may build the same disk: the last one wins, and both disks have the same content. */
async function buildDisk(path: string, { bytes, owner, prefix, options }: Disk): Promise<string> {
  if (existsSync(path)) return path
  const work = `${path}.${process.pid}`
  const handle = await open(work, 'w', 0o600)
  try {
    await handle.truncate(bytes)
    await handle.close()
    await chown(work, owner, owner)
    const mke2fs = ['mke2fs', '-q', '-F', '-t', 'ext4', '-E', 'lazy_itable_init=1,root_owner=0:0']
    const [program = 'mke2fs', ...rest] = [...prefix, ...mke2fs, ...options, work]
    await runCommandOrFail({ argv: [program, ...rest] }, 'making a disk of the template')
    await chown(work, 0, 0)
    await chmod(work, 0o644)
    await rename(work, path)
    return path
  } catch (error) {
    await rm(work, { force: true })
    throw error
  }
}
