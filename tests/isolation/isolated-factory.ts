import type { BurrowLimits } from '@dormouse/contracts'
import type { Layout } from '../../packages/engine-linux/src/host/layout.ts'
import { hostLimits, machineSize } from '../../packages/engine-microvm/src/burrow/host-limits.ts'
import { type LinuxFactory, linuxFactory } from '../engine-linux/linux-factory.ts'
import { type MicrovmFactory, microvmFactory } from '../engine-microvm/microvm-factory.ts'
import { TEST_ISOLATION } from '../test-isolation.ts'

export type IsolatedFactory = LinuxFactory | MicrovmFactory

/** Burrows with the isolation that these tests run in. */
export function isolatedFactory(): Promise<IsolatedFactory> {
  return TEST_ISOLATION === 'microvm' ? microvmFactory() : linuxFactory()
}

/** What a burrow takes of its host at most. A machine is larger than its limit, and QEMU needs memory, too. */
export function mostBytes(limits: BurrowLimits): number {
  if (TEST_ISOLATION === 'process') return limits.memoryBytes
  return hostLimits(limits, { ...machineSize(limits), accelerator: 'tcg' }).memoryBytes
}

/** For tests that look at processes and files of a sandbox from the host. Machines have none there. */
export function layoutOfProcesses({ layout }: IsolatedFactory): Layout {
  if ('layersDir' in layout) return layout
  throw new Error('A machine has its files on a disk and its processes in its memory.')
}
