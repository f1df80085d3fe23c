import { type BurrowLimits, DormouseError } from '@dormouse/contracts'
import { highestLimit } from '@dormouse/engine-linux/for-engines'
import type { Machine } from '../storage/manifest.ts'

/** What QEMU needs besides the guest's memory: its own code and data, and translated code under emulation. */
const QEMU_BYTES = { kvm: 128 * 1024 ** 2, tcg: 1536 * 1024 ** 2 }
/** Threads of QEMU: one per processor, and a pool for the disk; and a process for each volume. */
const QEMU_THREADS = 112
/** What the kernel of a guest and its page tables need beside the sandbox's processes. */
const GUEST_KERNEL_BYTES = 128 * 1024 ** 2
/** More have never been tried. */
const CPUS_MAX = 16
/** A small limit can be raised to nearly this. */
const SMALLEST_BYTES = 1024 ** 3

/**
 * Limits that the host enforces on QEMU. Those of the sandbox on its processes are enforced by the guest's kernel, whose
 * root could lift them; it gains no more than this.
 */
export function hostLimits(
  limits: BurrowLimits,
  machine: Pick<Machine, 'memoryBytes' | 'cpus' | 'accelerator'>,
): BurrowLimits {
  return {
    memoryBytes: machine.memoryBytes + QEMU_BYTES[machine.accelerator],
    cpus: limits.cpus,
    pids: QEMU_THREADS + machine.cpus,
  }
}

/**
 * The machine for these limits. Its memory, with what its kernel needs, is a power of two, so that sandboxes with similar
 * limits share a template. It takes memory when it uses it, so the rest is room to raise the limit. A limit of CPUs above
 * its processors has no effect.
 */
export function machineSize(limits: BurrowLimits): Pick<Machine, 'memoryBytes' | 'cpus'> {
  let memoryBytes = SMALLEST_BYTES
  while (memoryBytes < highestLimit(limits) + GUEST_KERNEL_BYTES) memoryBytes *= 2
  return { memoryBytes, cpus: Math.min(Math.max(1, Math.ceil(limits.cpus)), CPUS_MAX) }
}

/** The limits of a sandbox, as PID 1 of the guest reads them. `isPausing: false` lets waiting programs continue. */
export function guestLimits(
  limits: BurrowLimits,
  { memoryBytes: machineBytes }: Machine,
  { isPausing = limits.atMemoryLimit === 'pause' } = {},
): string {
  const most = machineBytes - GUEST_KERNEL_BYTES
  const pauseBytes = isPausing ? Math.min(limits.memoryBytes, most) : 0
  return `limits ${Math.min(highestLimit(limits), most)} ${limits.pids} ${pauseBytes}`
}

/** Throws for limits that this machine cannot have. */
export function refuseLimits({ memoryBytes }: BurrowLimits, machine: Machine): void {
  if (memoryBytes <= machine.memoryBytes) return
  throw new DormouseError(
    'isolation_unsupported',
    `This virtual machine has memory for a limit of at most ${machine.memoryBytes} bytes.`,
    {
      hint: 'A machine keeps the size that it was created with. Create a sandbox with a higher limit.',
      details: { field: 'memoryBytes', mostBytes: machine.memoryBytes },
    },
  )
}

/** A lower limit would make the guest's kernel end programs. */
export function refuseBelowUse(memoryBytes: number, usedBytes: number): void {
  if (usedBytes <= memoryBytes) return
  throw new DormouseError('conflict', 'The sandbox uses more memory than the new limit allows.', {
    hint: 'Free memory inside first, or choose a higher limit.',
    details: { field: 'memoryBytes', usedBytes },
  })
}
