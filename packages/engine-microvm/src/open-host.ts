import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import type { Log } from '@dormouse/engine'
import {
  FailureLog,
  findGateAddon,
  findHierarchies,
  ParentCgroup,
  prepareGuestTools,
  runCommandOrFail,
  sandboxShare,
} from '@dormouse/engine-linux/for-engines'
import { MicrovmLayout } from './host/microvm-layout.ts'
import { MicrovmHost } from './microvm-host.ts'
import { pagesProgram } from './native-programs.ts'
import { findQemu } from './qemu/find-qemu.ts'
import { CHAIN_MAX_DISKS } from './snapshot/shorten-chain.ts'
import { buildEmptyDisk, buildToolsDisk } from './template/build-disks.ts'
import { buildInitrd } from './template/build-initrd.ts'
import { findGuestKernel } from './template/guest-kernel.ts'

export interface MicrovmEngineOptions {
  /** Holds templates, the guest's kernel and booted templates. */
  readonly dataDir: string
  /** Holds burrows and snapshots; the data directory by default. */
  readonly stateDir?: string
  readonly hostMemoryBytes?: number
  /** `tcg` emulates also where KVM works. */
  readonly accelerator?: 'kvm' | 'tcg'
  /** Modules to import in new sandboxes, instead of those of the template. */
  readonly preload?: readonly string[]
  /** Chains of this many disks are merged. */
  readonly chainMaxDisks?: number
  readonly log?: Log
}

const DEFAULT_HOST_MEMORY_BYTES = 256 * 1024 ** 2

/** Finds or makes what all burrows share. */
export async function openHost(
  options: MicrovmEngineOptions & { readonly stateDir: string },
): Promise<{ host: MicrovmHost; parent: ParentCgroup }> {
  const { dataDir, stateDir, accelerator, log, hostMemoryBytes = DEFAULT_HOST_MEMORY_BYTES } = options
  const layout = new MicrovmLayout(stateDir, dataDir)
  const [qemu, kernel] = [await findQemu(accelerator), findGuestKernel(layout.kernelDir)]
  if (qemu === undefined || kernel === undefined)
    throw new DormouseError(
      'isolation_unavailable',
      `${qemu === undefined ? 'QEMU' : 'The kernel of the guests'} is not installed.`,
    )
  for (const path of [
    layout.burrowsDir,
    layout.sparesDir,
    layout.snapshotsDir,
    layout.arrivedDir,
    layout.runDir,
    layout.volumesDir,
  ])
    await mkdir(path, { recursive: true, mode: 0o700 })
  for (const path of [layout.disksDir, layout.templatesDir])
    await mkdir(path, { recursive: true, mode: 0o711 })
  const [hierarchies, toolsDir, gates] = await Promise.all([
    findHierarchies(),
    prepareGuestTools(dataDir),
    findGateAddon(),
  ])
  const failures = new FailureLog(log)
  const host = new MicrovmHost({
    ...{ layout, hierarchies, failures, qemu, kernel },
    initrd: await buildInitrd(kernel, layout.disksDir),
    emptyDisk: await buildEmptyDisk(layout.disksDir),
    toolsDisk: await buildToolsDisk(layout.disksDir, toolsDir),
    tscKhz: await measureClock(),
    chainMaxDisks: options.chainMaxDisks ?? CHAIN_MAX_DISKS,
    hasNetwork: 'addon' in gates && existsSync('/dev/net/tun'),
  })
  const share = await sandboxShare(hostMemoryBytes)
  return { host, parent: new ParentCgroup({ hierarchies, name: layout.cgroupName, share, failures }) }
}

async function measureClock(): Promise<number> {
  const { stdout } = await runCommandOrFail({ argv: [pagesProgram, 'clock'] }, 'measuring the clock')
  return Number(stdout)
}
