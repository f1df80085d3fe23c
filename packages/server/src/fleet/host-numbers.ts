import type { SandboxRow } from '../store/sandbox-rows.ts'
import type { Counts, HostNumbers } from './fleet-elsewhere.ts'

export function noNumbers(): HostNumbers & { -readonly [Name in keyof HostNumbers]: number } {
  return { running: 0, frozen: 0, stored: 0, failed: 0, memoryHeldBytes: 0, memorySavedBytes: 0 }
}

/** The sum over hosts. */
export function addNumbers(all: readonly HostNumbers[]): HostNumbers {
  const sum = noNumbers()
  for (const one of all) for (const name of Object.keys(sum) as (keyof HostNumbers)[]) sum[name] += one[name]
  return sum
}

/** Whether it is damaged is known to its own host only. */
export function groupOfRow({ state, tier }: Pick<SandboxRow, 'state' | 'tier'>): keyof Counts {
  return state === 'standby' ? (tier ?? 'stored') : 'running'
}
