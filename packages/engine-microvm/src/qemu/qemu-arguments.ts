import { basename } from 'node:path'
import type { Machine } from '../storage/manifest.ts'
import { QEMU } from './find-qemu.ts'

export interface QemuStart {
  readonly machine: Machine
  readonly commandLine: string
  /** Whether the guest comes from a snapshot. Otherwise it boots. It runs when it is told to continue in both cases. */
  readonly isIncoming: boolean
  /** Whether the jail gives QEMU a tap device. Without it the card is there, and its cable ends nowhere. */
  readonly hasTap: boolean
}

/** The descriptor of the tap device in QEMU. */
export const TAP_FD = 9
/** The same at both ends of the cable: see native/src/tap.c. */
const HARDWARE_ADDRESS = '02:64:6f:72:6d:6f'

/**
 * Without `rep movsb` and `rep stosb` as the way to copy and clear memory: emulation takes a step for each byte, and only
 * one for eight with the instructions that the guest uses otherwise.
 */
const EMULATED_CPU = 'max,-erms,-fsrm'

const OWN_FILE = 'own'

/** Paths inside the jail. */
export const JAIL = {
  kernel: '/guest/kernel',
  initrd: '/guest/initrd',
  tools: '/guest/tools',
  disk: '/disk.qcow2',
  lowerDisks: '/disks',
  memory: '/run/memory',
  memoryFiles: '/memory',
  map: '/memory/map',
  library: '/guest/memory.so',
  incoming: '/run/incoming.sock',
  outgoing: '/run/outgoing.sock',
} as const

export const lowerDiskInJail = (path: string) => `${JAIL.lowerDisks}/${basename(path)}`
export const memoryInJail = (name: string) => `${JAIL.memoryFiles}/${name}`

/** The same machine for a boot and for every restore: QEMU loads devices only into an equal machine. */
export function qemuArguments(start: QemuStart): string[] {
  const { machine, isIncoming, hasTap } = start
  const isKvm = machine.accelerator === 'kvm'
  const memoryMiB = machine.memoryBytes / 1024 ** 2
  return [
    QEMU,
    ...[
      '-M',
      `microvm,accel=${machine.accelerator},memory-backend=memory,rtc=on,pit=off,pic=off,isa-serial=on`,
    ],
    ...[
      '-cpu',
      isKvm ? 'host,migratable=on' : EMULATED_CPU,
      '-smp',
      String(machine.cpus),
      '-m',
      String(memoryMiB),
    ],
    ...['-object', `memory-backend-file,id=memory,size=${memoryMiB}M,mem-path=${JAIL.memory},share=on`],
    ...['-kernel', JAIL.kernel, '-initrd', JAIL.initrd, '-append', start.commandLine],
    ...['-nodefaults', '-no-user-config', '-display', 'none', '-no-reboot'],
    // Bounded: root of the guest can write to its console for ever.
    ...['-chardev', 'ringbuf,id=console,size=65536', '-serial', 'chardev:console'],
    ...['-qmp', 'unix:/run/qmp.sock,server=on,wait=off'],
    ...ownDisks().flatMap((node) => ['-blockdev', JSON.stringify(node)]),
    ...['-device', 'virtio-blk-device,drive=root', '-device', 'virtio-blk-device,drive=tools'],
    ...['-device', 'virtio-serial-device,max_ports=2'],
    ...['-chardev', 'socket,id=link,path=/run/link.sock,server=on,wait=off'],
    ...['-device', 'virtserialport,chardev=link,name=dormouse'],
    ...['-object', 'rng-builtin,id=random', '-device', 'virtio-rng-device,rng=random'],
    ...['-netdev', hasTap ? `tap,id=cable,fd=${TAP_FD}` : 'hubport,id=cable,hubid=0'],
    ...['-device', `virtio-net-device,netdev=cable,mac=${HARDWARE_ADDRESS}`],
    // What the guest has freed is given back to the host, and is not in the next snapshot.
    ...['-device', 'virtio-balloon-device,free-page-reporting=on'],
    ...['-sandbox', 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'],
    ...(isIncoming ? ['-incoming', 'defer'] : ['-S']),
  ]
}

interface BlockNode extends Readonly<Record<string, unknown>> {
  readonly 'node-name': string
}

const diskFile = (filename: string) => ({ driver: 'file', filename, locking: 'off' })

/** QEMU starts with these; what is below the burrow's own disk comes later. */
function ownDisks(): BlockNode[] {
  return [
    { ...ownDisk(null), file: { ...diskFile(JAIL.disk), discard: 'unmap', 'node-name': OWN_FILE } },
    { 'node-name': 'tools', 'read-only': true, driver: 'raw', file: diskFile(JAIL.tools) },
  ]
}

/** The burrow's own disk over this one. */
export function ownDisk(backing: string | null): BlockNode {
  return { 'node-name': 'root', driver: 'qcow2', file: OWN_FILE, backing, discard: 'unmap' }
}

/**
 * The disks below the burrow's own, lowest first: the root disk of the template and the disks above it, all read-only.
 * The chain is spelled out: the files themselves name no other file.
 */
export function lowerDisks(paths: readonly string[]): BlockNode[] {
  return paths.map((path, index) => ({
    'node-name': `lower${index}`,
    'read-only': true,
    driver: index === 0 ? 'raw' : 'qcow2',
    file: diskFile(lowerDiskInJail(path)),
    ...(index > 0 && { backing: `lower${index - 1}` }),
  }))
}

/**
 * `tsc`: without KVM a guest of this machine type has nothing to measure its clock with, so it is told. `iomem`: root of
 * the guest may write to the registers of its devices, which the host must bear in any case.
 */
export function kernelCommandLine(
  machine: Machine,
  { tscKhz, python }: { readonly tscKhz: number; readonly python?: string | undefined },
): string {
  const clock = machine.accelerator === 'tcg' ? `tsc_early_khz=${tscKhz} tsc=reliable` : ''
  const agent = python === undefined ? '' : `DORMOUSE_PYTHON=${python}`
  return `console=ttyS0 quiet panic=-1 reboot=t random.trust_cpu=on iomem=relaxed ${clock} ${agent}`.trim()
}
