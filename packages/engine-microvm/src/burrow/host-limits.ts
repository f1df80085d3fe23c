import type { BurrowLimits } from '@dormouse/contracts'
import type { Machine } from '../storage/manifest.ts'

/** What QEMU needs besides the guest's memory: its own code and data, and translated code under emulation. */
const QEMU_BYTES = { kvm: 128 * 1024 ** 2, tcg: 1536 * 1024 ** 2 }
/** Threads of QEMU: one per processor, and a pool for the disk; and a process for each volume. */
const QEMU_THREADS = 112
/** What the kernel of a guest and its page tables need beside the sandbox's processes. */
const GUEST_KERNEL_BYTES = 128 * 1024 ** 2
const SMALLEST_BYTES = 512 * 1024 ** 2

/**
 * Limits that the host enforces on QEMU. Those of the sandbox on its processes are enforced by the guest's kernel, whose
 * root could lift them; it gains no more than this.
 */
export function hostLimits(limits: BurrowLimits, machine: Machine): BurrowLimits {
  return {
    memoryBytes: machine.memoryBytes + QEMU_BYTES[machine.accelerator],
    cpus: limits.cpus,
    pids: QEMU_THREADS + machine.cpus,
  }
}

/** The size of a machine for this limit: a power of two, so that sandboxes with similar limits share a template. */
export function machineMemoryBytes(limitBytes: number): number {
  let bytes = SMALLEST_BYTES
  while (bytes < limitBytes) bytes *= 2
  return bytes
}

/** What the guest's kernel lets the sandbox's processes use: it needs some of the machine's memory itself. */
export function guestMemoryBytes({ memoryBytes }: BurrowLimits, machine: Machine): number {
  return Math.min(memoryBytes, machine.memoryBytes - GUEST_KERNEL_BYTES)
}
