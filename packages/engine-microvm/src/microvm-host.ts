import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Arrivals, FailureLog, Hierarchies } from '@dormouse/engine-linux/for-engines'
import type { MicrovmLayout } from './host/microvm-layout.ts'
import type { FoundQemu } from './qemu/find-qemu.ts'
import type { Base } from './storage/manifest.ts'
import type { GuestKernel } from './template/guest-kernel.ts'

/** A kernel, and the files that a guest starts from with it. */
export interface StartedKernel extends GuestKernel {
  readonly initrd: string
}

export interface MicrovmHostParts {
  readonly layout: MicrovmLayout
  readonly hierarchies: Hierarchies
  readonly failures: FailureLog
  /** Snapshots whose memory is still on its way. */
  readonly arrivals: Arrivals
  readonly qemu: FoundQemu
  /** What guests can start with, by release; the first one is that of new guests. */
  readonly kernels: ReadonlyMap<string, StartedKernel>
  readonly emptyDisk: string
  readonly toolsDisk: string
  readonly tscKhz: number
  /** Whether gates and tap devices work here. */
  readonly hasNetwork: boolean
  /** Longer chains of disks are merged. */
  readonly chainMaxDisks: number
}

/** What all burrows of this engine share. */
export class MicrovmHost implements MicrovmHostParts {
  readonly layout: MicrovmLayout
  readonly hierarchies: Hierarchies
  readonly failures: FailureLog
  readonly arrivals: Arrivals
  readonly qemu: FoundQemu
  readonly kernels: ReadonlyMap<string, StartedKernel>
  /** That of new guests. */
  readonly kernel: StartedKernel
  readonly emptyDisk: string
  readonly toolsDisk: string
  readonly tscKhz: number
  /** Whether gates and tap devices work here. */
  readonly hasNetwork: boolean
  /** Longer chains of disks are merged. */
  readonly chainMaxDisks: number

  constructor(parts: MicrovmHostParts) {
    this.layout = parts.layout
    this.hierarchies = parts.hierarchies
    this.failures = parts.failures
    this.arrivals = parts.arrivals
    this.qemu = parts.qemu
    this.kernels = parts.kernels
    const [newest] = parts.kernels.values()
    if (newest === undefined) throw new Error('a host needs a kernel for its guests')
    this.kernel = newest
    this.emptyDisk = parts.emptyDisk
    this.toolsDisk = parts.toolsDisk
    this.tscKhz = parts.tscKhz
    this.hasNetwork = parts.hasNetwork
    this.chainMaxDisks = parts.chainMaxDisks
  }

  /**
   * A disk is in `directory` if a sandbox wrote it, or if it came from another host with a snapshot; otherwise it is the
   * template's or this host's.
   */
  diskFile(directory: string, base: Base, name: string): string {
    const own = join(directory, name)
    if (existsSync(own)) return own
    if (name === base.rootDisk || name === base.toolsDisk) return join(this.layout.disksDir, name)
    return join(this.layout.template(base.build).disks, name)
  }

  memoryFile(directory: string, base: Base, name: string): string {
    const own = join(directory, name)
    return existsSync(own) ? own : join(this.layout.template(base.build).memory, name)
  }
}
