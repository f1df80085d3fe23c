import type { SandboxRow } from '../store/sandbox-rows.ts'

const KIB = 1024
const MIB = 1024 ** 2
const GIB = 1024 ** 3

/** What the host measured of the memory of a sandbox. */
export interface MemoryFigures {
  readonly limitBytes: number
  /** The most it ever used; 0 where Linux does not count it. That of a machine includes QEMU's own. */
  readonly peakBytes: number
}

/** 64 KiB, 256 MiB, 1.5 GiB. */
export function inBinaryUnits(bytes: number): string {
  if (bytes >= GIB) return `${Number((bytes / GIB).toFixed(2))} GiB`
  return bytes >= MIB ? `${Math.round(bytes / MIB)} MiB` : `${Math.round(bytes / KIB)} KiB`
}

export function reachedLimit({ limitBytes, peakBytes }: MemoryFigures): string {
  const peak = peakBytes > 0 ? ` (peak ${inBinaryUnits(Math.min(peakBytes, limitBytes))})` : ''
  return `the sandbox reached its memory limit of ${inBinaryUnits(limitBytes)}${peak}`
}

/** How to raise the limit of this sandbox, to twice as much. One for a single task is gone when its caller reads this. */
export function howToRaise({
  id,
  name,
  limits,
  ephemeral,
}: Pick<SandboxRow, 'id' | 'name' | 'limits' | 'ephemeral'>): string {
  const bytes = 2 * limits.memoryBytes
  const size = bytes % GIB === 0 ? `${bytes / GIB}GiB` : `${Math.ceil(bytes / MIB)}MiB`
  if (ephemeral)
    return `Ask for more memory: \`--memory ${size}\`, or \`limits.memoryBytes\` by HTTP or an SDK.`
  return (
    `Raise the limit with \`dormouse update ${name ?? id} --memory ${size}\`, ` +
    'or `limits.memoryBytes` of an update by HTTP or an SDK.'
  )
}

export function capitalised(sentence: string): string {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1)
}
