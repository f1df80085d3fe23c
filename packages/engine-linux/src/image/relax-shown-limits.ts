import type { OpenFiles } from './open-files.ts'

/** What dormouse-init mounts over the kernel's files (native/src/show-limits.c), and where it takes them from. */
const SHOWN_FILES: ReadonlySet<string> = new Set([
  '/proc/meminfo',
  '/proc/cpuinfo',
  '/sys/devices/system/cpu/online',
])
const SHOWN_DIRECTORIES = ['/sys/fs/cgroup/', '/dev/.limits/']

/**
 * Lets a restore accept the files that tell programs their limits: they change with the limits, and those of the
 * kernel have no size at all. CRIU compares sizes.
 */
export function relaxShownLimits(files: OpenFiles): void {
  for (const { id, path } of files.all) if (isShown(path)) files.relax(id)
}

function isShown(path: string): boolean {
  return SHOWN_FILES.has(path) || SHOWN_DIRECTORIES.some((directory) => path.startsWith(directory))
}
