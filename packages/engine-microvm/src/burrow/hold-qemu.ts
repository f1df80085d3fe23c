import { randomBytes } from 'node:crypto'
import { chmod, chown, copyFile, mkdir, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type BurrowLimits, burrowLimitsSchema, DormouseError, newBurrowId } from '@dormouse/contracts'
import { BurrowCgroup, burrowFilters, isAlive } from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'
import { GuestLink } from '../link/guest-link.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { jailProgram, memoryLibrary } from '../native-programs.ts'
import { connectWhenMade } from '../qemu/connect-socket.ts'
import {
  JAIL,
  kernelCommandLine,
  lowerDiskInJail,
  lowerDisks,
  memoryInJail,
  ownDisk,
  qemuArguments,
  TAP_FD,
} from '../qemu/qemu-arguments.ts'
import { JAILED_LIBRARIES, qemuFiles } from '../qemu/qemu-files.ts'
import { QmpClient } from '../qemu/qmp-client.ts'
import type { Base, Machine } from '../storage/manifest.ts'
import { hostLimits } from './host-limits.ts'
import type { LaunchedQemu } from './launched-qemu.ts'
import { removeBurrow } from './remove-burrow.ts'
import { type Jailed, startJail } from './start-jail.ts'

/** Uids that no user of a host and no sandbox has: a QEMU that its guest takes over owns nothing but its burrow. */
const UID_BASE = 0x7000_0000

export interface HoldQemu {
  readonly machine: Machine
  /** The path of the disk with the tools of the guest. */
  readonly toolsDisk: string
  /** Whether it will load a snapshot. Otherwise its guest boots. */
  readonly isIncoming: boolean
  /** The Python of the agent in a guest that boots; that of the template by default. */
  readonly python?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * A QEMU in its jail whose machine exists and has seen nothing: neither memory nor a disk with content. Nothing in it
 * depends on what the burrow will be.
 */
export interface HeldQemu extends LaunchedQemu {
  readonly paths: MicrovmBurrowPaths
  readonly uid: number
  readonly jailed: Jailed
}

/** Makes directories and cgroups of a burrow, and a QEMU that waits in them. On failure nothing is left. */
export async function holdQemu(host: MicrovmHost, hold: HoldQemu): Promise<HeldQemu> {
  const { machine, signal } = hold
  const paths = host.layout.burrow(newBurrowId())
  const uid = UID_BASE + randomBytes(3).readUIntBE(0, 3)
  const cgroup = new BurrowCgroup(host.hierarchies, paths.cgroup)
  let jailed: Jailed | undefined
  try {
    await writeFile(paths.spareMark, '')
    await makeFiles(host, paths, { machine, uid })
    await cgroup.create(hostLimits(burrowLimitsSchema.parse({}), machine))
    const files = await qemuFiles()
    jailed = await startJail(jailArguments(host, paths, { ...hold, uid, cgroup, files }), signal)
    const { first } = jailed
    const isOver = async () => signal?.aborted === true || !(await isAlive(first))
    const qmp = await QmpClient.over(await connectWhenMade(paths.qmp, isOver))
    const link = GuestLink.over(await connectWhenMade(paths.link, isOver))
    return { paths, uid, cgroup, jailed, first, qmp, link }
  } catch (cause) {
    await removeBurrow(host, paths, jailed?.first)
    signal?.throwIfAborted()
    if (cause instanceof DormouseError) throw cause
    throw new DormouseError('burrow_start_failed', 'The virtual machine did not start.', { cause })
  }
}

interface Filling {
  readonly base: Base
  readonly limits: BurrowLimits
  /** Where the memory files that it continues from are, unless they are the template's. Undefined when it boots. */
  readonly memoryDir: string | undefined
}

/** Lets a held QEMU see its files. It opens none of them yet. Pre: the burrow's directory has links to its own. */
export async function showFiles(
  host: MicrovmHost,
  { paths, jailed, cgroup }: HeldQemu,
  { base, limits, memoryDir }: Filling,
): Promise<void> {
  const disks = base.disks.map((name) => host.diskFile(paths.disks, base, name))
  await jailed.bind([
    ...disks.map((path) => [path, lowerDiskInJail(path)] as const),
    ...(memoryDir === undefined ? [] : memoryEntries(host, { base, memoryDir, map: paths.map })),
  ])
  await cgroup.apply(hostLimits(limits, base.machine))
  await rm(paths.spareMark, { force: true })
}

function memoryEntries(
  host: MicrovmHost,
  { base, memoryDir, map }: { readonly base: Base; readonly memoryDir: string; readonly map: string },
) {
  const files = base.memory.map(
    (name) => [host.memoryFile(memoryDir, base, name), memoryInJail(name)] as const,
  )
  return [...files, [map, JAIL.map] as const]
}

/** Puts the disks below the burrow's own. A sandbox wrote some of them: from here on QEMU may be in its hands. */
export async function openDisks({ qmp }: HeldQemu, { disks }: Base): Promise<void> {
  const nodes = lowerDisks(disks)
  const own = ownDisk(nodes.at(-1)?.['node-name'] ?? null)
  await Promise.all([
    ...nodes.map((node) => qmp.execute('blockdev-add', node)),
    qmp.execute('blockdev-reopen', { options: [own] }),
  ])
}

export function isHeldAlive({ first }: HeldQemu): Promise<boolean> {
  return isAlive(first)
}

async function makeFiles(
  host: MicrovmHost,
  paths: MicrovmBurrowPaths,
  { machine, uid }: { readonly machine: Machine; readonly uid: number },
): Promise<void> {
  await mkdir(paths.dir, { mode: 0o700 })
  await mkdir(paths.disks)
  await mkdir(paths.memory)
  await copyFile(host.emptyDisk, paths.disk)
  await chmod(paths.disk, 0o600)
  await mkdir(paths.root, { recursive: true, mode: 0o700 })
  await mkdir(paths.run, { mode: 0o700 })
  const memory = join(paths.run, 'memory')
  await writeFile(memory, '')
  await truncate(memory, machine.memoryBytes)
  for (const path of [paths.run, memory, paths.disk]) await chown(path, uid, uid)
}

interface JailOf extends HoldQemu {
  readonly uid: number
  readonly cgroup: BurrowCgroup
  readonly files: readonly (readonly [source: string, target: string])[]
}

/** Everything that QEMU can open, but for the files that `fillQemu` binds. */
function jailArguments(
  host: MicrovmHost,
  paths: MicrovmBurrowPaths,
  { machine, toolsDisk, isIncoming, python, uid, cgroup, files }: JailOf,
): string[] {
  const { image, initrd } = host.kernels.get(machine.kernel) ?? host.kernel
  const readOnly = [
    ...files,
    [image, JAIL.kernel],
    [initrd, JAIL.initrd],
    [memoryLibrary, JAIL.library],
    [toolsDisk, JAIL.tools],
  ] as const
  const devices = ['/dev/null', '/dev/urandom', ...(machine.accelerator === 'kvm' ? ['/dev/kvm'] : [])]
  const writable = [
    [paths.run, '/run'],
    [paths.disk, JAIL.disk],
  ] as const
  const env = [
    `LD_LIBRARY_PATH=${JAILED_LIBRARIES}`,
    `LD_PRELOAD=${JAIL.library}`,
    `DORMOUSE_VM_MEMORY=${JAIL.memory}`,
    `DORMOUSE_VM_MAP=${JAIL.map}`,
  ]
  return [
    jailProgram,
    ...cgroup.directories.flatMap((directory) => ['--cgroup', directory]),
    ...['--root', paths.root, '--uid', String(uid)],
    ...burrowFilters.flatMap((filter) => ['--filter', filter]),
    ...readOnly.flatMap(([source, target]) => ['--ro', source, target]),
    ...writable.flatMap(([source, target]) => ['--rw', source, target]),
    ...devices.flatMap((path) => ['--device', path]),
    ...['--dir', JAIL.lowerDisks, '--dir', JAIL.memoryFiles],
    ...env.flatMap((one) => ['--env', one]),
    ...(host.hasNetwork ? ['--tap', String(TAP_FD)] : []),
    ...['--later', '--'],
    ...qemuArguments({
      ...{ machine, isIncoming, hasTap: host.hasNetwork },
      commandLine: kernelCommandLine(machine, { tscKhz: host.tscKhz, python }),
    }),
  ]
}
