import type { MicrovmHost } from '../microvm-host.ts'
import { countFiles } from '../template/build-disks.ts'
import type { MicrovmBurrow } from './microvm-burrow.ts'

/**
 * Files that this burrow and those before it made. They are inside the disk, so the guest counts them; one that lies has
 * no more room than its disk.
 */
export async function writtenFiles(
  host: MicrovmHost,
  { paths, record, numbers }: MicrovmBurrow,
): Promise<number> {
  const { usedFiles } = await numbers.ask()
  if (usedFiles === undefined) return 0
  const rootDisk = host.diskFile(paths.disks, record.base, record.base.rootDisk)
  return Math.max(0, usedFiles - (await countFiles(rootDisk)))
}
