import { existsSync } from 'node:fs'
import { chown, mkdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { BurrowCgroup, type FirstProcess, isAlive, startProgram } from '@dormouse/engine-linux/for-engines'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'
import { GuestLink } from '../link/guest-link.ts'
import type { MicrovmHost } from '../microvm-host.ts'
import { jailProgram, memoryLibrary } from '../native-programs.ts'
import { connectWhenMade } from '../qemu/connect-socket.ts'
import {
  JAIL,
  kernelCommandLine,
  lowerDiskInJail,
  memoryInJail,
  qemuArguments,
  TAP_FD,
} from '../qemu/qemu-arguments.ts'
import { QmpClient } from '../qemu/qmp-client.ts'
import type { MicrovmRecord } from './burrow-record.ts'
import { hostLimits } from './host-limits.ts'

export interface LaunchedQemu {
  readonly first: FirstProcess
  readonly qmp: QmpClient
  readonly link: GuestLink
  readonly cgroup: BurrowCgroup
}

/**
 * Starts QEMU in its jail and connects to it. The guest does not run yet when the burrow comes from a snapshot.
 * Pre: the burrow's directory has its disks, memory files and record. On failure the caller removes the burrow.
 */
export async function launchQemu(
  host: MicrovmHost,
  paths: MicrovmBurrowPaths,
  record: MicrovmRecord,
  signal?: AbortSignal,
): Promise<LaunchedQemu> {
  const { uid, base } = record
  const cgroup = new BurrowCgroup(host.hierarchies, paths.cgroup)
  await cgroup.create(hostLimits(record.limits, base.machine))
  await mkdir(paths.root, { recursive: true, mode: 0o700 })
  await mkdir(paths.run, { mode: 0o700 })
  await writeFile(join(paths.run, 'memory'), '')
  await truncate(join(paths.run, 'memory'), base.machine.memoryBytes)
  for (const path of [paths.run, join(paths.run, 'memory'), paths.disk]) await chown(path, uid, uid)
  const first = await startJail(jailArguments(host, paths, record, cgroup), signal)
  const isOver = async () => signal?.aborted === true || !(await isAlive(first))
  try {
    const qmp = await QmpClient.over(await connectWhenMade(paths.qmp, isOver))
    const link = GuestLink.over(await connectWhenMade(paths.link, isOver))
    return { first, qmp, link, cgroup }
  } catch (cause) {
    signal?.throwIfAborted()
    throw new DormouseError('burrow_start_failed', 'The virtual machine did not start.', { cause })
  }
}

/** Everything that QEMU can open. */
function jailArguments(
  host: MicrovmHost,
  paths: MicrovmBurrowPaths,
  { uid, base }: MicrovmRecord,
  cgroup: BurrowCgroup,
): string[] {
  const isIncoming = existsSync(paths.map)
  const lower = base.disks.map((name) => host.diskFile(paths.disks, base, name))
  const readOnly: [string, string][] = [
    ['/usr', '/usr'],
    [host.kernel.image, JAIL.kernel],
    [host.initrd, JAIL.initrd],
    [memoryLibrary, JAIL.library],
    [join(host.layout.disksDir, base.toolsDisk), JAIL.tools],
    ...lower.map((path): [string, string] => [path, lowerDiskInJail(path)]),
    ...base.memory.map((name): [string, string] => [
      host.memoryFile(paths.memory, base, name),
      memoryInJail(name),
    ]),
    ...(isIncoming ? [[paths.map, JAIL.map] as [string, string]] : []),
  ]
  const devices = ['/dev/null', '/dev/urandom', ...(base.machine.accelerator === 'kvm' ? ['/dev/kvm'] : [])]
  const writable = [[paths.run, '/run'], [paths.disk, JAIL.disk], ...devices.map((path) => [path, path])]
  const env = [
    `LD_PRELOAD=${JAIL.library}`,
    `DORMOUSE_VM_MEMORY=${JAIL.memory}`,
    ...(isIncoming ? [`DORMOUSE_VM_MAP=${JAIL.map}`] : []),
  ]
  return [
    jailProgram,
    ...cgroup.directories.flatMap((directory) => ['--cgroup', directory]),
    ...['--root', paths.root, '--uid', String(uid)],
    ...readOnly.flatMap(([source, target]) => ['--ro', source, target]),
    ...writable.flatMap(([source = '', target = '']) => ['--rw', source, target]),
    ...['--link', 'usr/lib', '/lib', '--link', 'usr/lib64', '/lib64'],
    ...env.flatMap((one) => ['--env', one]),
    ...(host.hasNetwork ? ['--tap', String(TAP_FD)] : []),
    '--',
    ...qemuArguments({
      machine: base.machine,
      lowerDisks: lower,
      commandLine: kernelCommandLine(base.machine, host.tscKhz),
      isIncoming,
      hasTap: host.hasNetwork,
    }),
  ]
}

async function startJail(argv: readonly string[], signal?: AbortSignal): Promise<FirstProcess> {
  signal?.throwIfAborted()
  const [file = '', ...rest] = argv
  const program = startProgram({
    argv: [file, ...rest],
    env: {},
    isDetached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let said = ''
  const [, output] = program.streams
  output?.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8')
  })
  await program.closed
  const pid = Number(/^pid (\d+)$/m.exec(said)?.[1])
  if (!Number.isInteger(pid))
    throw new DormouseError(
      'burrow_start_failed',
      `QEMU cannot be started: ${said.trim() || 'no reason given'}`,
    )
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  const startTime = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  return { pid, startTime }
}
