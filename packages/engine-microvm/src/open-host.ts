import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { DormouseError } from '@dormouse/contracts'
import type { Log } from '@dormouse/engine'
import {
  Arrivals,
  FailureLog,
  findGateAddon,
  findHierarchies,
  ParentCgroup,
  prepareGuestTools,
  runCommandOrFail,
  sandboxShare,
} from '@dormouse/engine-linux/for-engines'
import { findRecord } from './burrow/burrow-record.ts'
import { memoryPlace } from './burrow/memory-place.ts'
import { MicrovmLayout } from './host/microvm-layout.ts'
import { MicrovmHost, type StartedKernel } from './microvm-host.ts'
import { pagesProgram } from './native-programs.ts'
import { findQemu } from './qemu/find-qemu.ts'
import { CHAIN_MAX_DISKS } from './snapshot/shorten-chain.ts'
import { buildEmptyDisk, buildToolsDisk } from './template/build-disks.ts'
import { buildInitrd } from './template/build-initrd.ts'
import { type GuestKernel, listGuestKernels } from './template/guest-kernel.ts'

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
  const [qemu, installed] = [await findQemu(accelerator), listGuestKernels(layout.kernelDir)]
  if (qemu === undefined || installed.length === 0)
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
    arrivals: openArrivals(layout, failures),
    ...{ layout, hierarchies, failures, qemu, kernels: await startedKernels(installed, layout.disksDir) },
    emptyDisk: await buildEmptyDisk(layout.disksDir),
    toolsDisk: await buildToolsDisk(layout.disksDir, toolsDir),
    tscKhz: await measureClock(),
    chainMaxDisks: options.chainMaxDisks ?? CHAIN_MAX_DISKS,
    hasNetwork: 'addon' in gates && existsSync('/dev/net/tun'),
  })
  const share = await sandboxShare(hostMemoryBytes)
  return { host, parent: new ParentCgroup({ hierarchies, name: layout.cgroupName, share, failures }) }
}

function openArrivals(layout: MicrovmLayout, failures: FailureLog): Arrivals {
  const { snapshotsDir, burrowsDir } = layout
  return new Arrivals({
    // Every QEMU has a uid of its own.
    ...{ failures, snapshotsDir, burrowsDir, rights: { owner: 0, mode: 0o644 } },
    findBurrow: async (id) => {
      const paths = layout.burrow(id)
      return { parent: (await findRecord(paths.record))?.parent, place: memoryPlace(paths) }
    },
  })
}

async function startedKernels(
  kernels: readonly GuestKernel[],
  directory: string,
): Promise<ReadonlyMap<string, StartedKernel>> {
  const started = new Map<string, StartedKernel>()
  for (const [index, kernel] of kernels.entries()) {
    if (started.has(kernel.release)) continue
    const initrd = await buildInitrd(kernel, directory).catch((error: unknown) => {
      if (index === 0) throw error
    })
    // An earlier kernel that lacks a driver of today: only snapshots of its guests need it.
    if (initrd !== undefined) started.set(kernel.release, { ...kernel, initrd })
  }
  return started
}

async function measureClock(): Promise<number> {
  const { stdout } = await runCommandOrFail({ argv: [pagesProgram, 'clock'] }, 'measuring the clock')
  return Number(stdout)
}
