import { fingerprintSchema, mismatch, readFingerprint } from '@dormouse/engine-linux/for-engines'
import { z } from 'zod'
import type { MicrovmHost } from '../microvm-host.ts'
import type { Base } from '../storage/manifest.ts'
import { versionsOf } from './booted-template.ts'

/** Two measurements of one clock differ less. */
const CLOCK_TOLERANCE = 0.01

const hostSchema = z.object({
  machine: z.object({ accelerator: z.enum(['kvm', 'tcg']), qemuVersion: z.string(), kernel: z.string() }),
  /** With KVM the guest sees the processor of its host. */
  processor: fingerprintSchema.optional(),
  /** Under emulation it counts time by the counter of the processor, whose frequency it was told when it booted. */
  clockKhz: z.number().optional(),
})

export type MachineHost = z.output<typeof hostSchema>

/** What a host has. A snapshot that was taken there needs the same. */
export async function describeMachines(host: MicrovmHost): Promise<MachineHost> {
  const machine = versionsOf(host)
  return machine.accelerator === 'kvm'
    ? { machine, processor: await readFingerprint() }
    : { machine, clockKhz: host.tscKhz }
}

/** Says why a host cannot run machines of another one; undefined when it can. */
export function machineProblem(needs: unknown, abilities: unknown): string | undefined {
  if (abilities === undefined) return 'it has no virtual machines'
  const [wanted, present] = [hostSchema.safeParse(needs), hostSchema.safeParse(abilities)]
  if (!wanted.success || !present.success) return 'it has another version of the engine for virtual machines'
  const { machine, processor, clockKhz = 0 } = wanted.data
  const { clockKhz: clockHere = clockKhz, ...here } = present.data
  const problem = mismatchOf(machine, here.machine)
  if (problem !== undefined) return problem
  if (Math.abs(clockKhz - clockHere) > CLOCK_TOLERANCE * clockKhz)
    return `its clock counts ${inMhz(clockKhz)} MHz, and this processor has ${inMhz(clockHere)} MHz`
  return processor && here.processor && mismatch(processor, here.processor)
}

/** The same for a snapshot that is here: the host may have another version of QEMU by now. */
export function problemHere(host: MicrovmHost, { machine }: Pick<Base, 'machine'>): string | undefined {
  // Earlier kernels are still there for the snapshots of their guests.
  const here = host.kernels.has(machine.kernel) ? { kernel: machine.kernel } : {}
  return mismatchOf(machine, { ...versionsOf(host), ...here })
}

type Versions = ReturnType<typeof versionsOf>

function mismatchOf(saved: Versions, here: Versions): string | undefined {
  if (saved.accelerator !== here.accelerator)
    return `it was taken with ${saved.accelerator}, and this host has ${here.accelerator}`
  if (saved.qemuVersion !== here.qemuVersion)
    return `it was taken by QEMU ${saved.qemuVersion}, and this host has ${here.qemuVersion}`
  if (saved.kernel === here.kernel) return undefined
  return `its guest runs Linux ${saved.kernel}, and guests of this host run Linux ${here.kernel}`
}

function inMhz(khz: number): number {
  return Math.round(khz / 1000)
}
