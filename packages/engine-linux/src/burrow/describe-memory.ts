import type { MemoryParts } from '../cgroup/memory-parts.ts'

const KIBIBYTE = 1024

/** The lines of /proc/meminfo that programs read, for a machine with this much memory and no swap. */
export function describeMeminfo(
  { anonBytes, fileBytes, activeFileBytes, inactiveFileBytes, sharedBytes }: MemoryParts,
  {
    totalBytes,
    usedBytes,
    availableBytes,
  }: { readonly totalBytes: number; readonly usedBytes: number; readonly availableBytes: number },
): string {
  const lines: readonly [string, number][] = [
    ['MemTotal', totalBytes],
    ['MemFree', Math.max(0, totalBytes - usedBytes)],
    ['MemAvailable', availableBytes],
    ['Buffers', 0],
    ['Cached', fileBytes],
    ['SwapCached', 0],
    ['Active', activeFileBytes],
    ['Inactive', anonBytes + inactiveFileBytes],
    ['Active(anon)', 0],
    ['Inactive(anon)', anonBytes],
    ['Active(file)', activeFileBytes],
    ['Inactive(file)', inactiveFileBytes],
    ['Unevictable', 0],
    ['Mlocked', 0],
    ['SwapTotal', 0],
    ['SwapFree', 0],
    ['Dirty', 0],
    ['Writeback', 0],
    ['AnonPages', anonBytes],
    ['Mapped', 0],
    ['Shmem', sharedBytes],
    ['KReclaimable', 0],
    ['Slab', 0],
    ['SReclaimable', 0],
    ['SUnreclaim', 0],
    ['CommitLimit', totalBytes],
  ]
  return lines.map(([name, bytes]) => line(name, bytes)).join('')
}

/** As the kernel aligns it; programs that count columns exist. */
function line(name: string, bytes: number): string {
  return `${`${name}:`.padEnd(16)}${String(Math.floor(bytes / KIBIBYTE)).padStart(8)} kB\n`
}

/** The lines of the cgroup file memory.stat that programs read. */
export function describeStat(memory: MemoryParts): string {
  return [
    `anon ${memory.anonBytes}`,
    `file ${memory.fileBytes}`,
    `shmem ${memory.sharedBytes}`,
    `inactive_file ${memory.inactiveFileBytes}`,
    `active_file ${memory.activeFileBytes}`,
  ].join('\n')
}
