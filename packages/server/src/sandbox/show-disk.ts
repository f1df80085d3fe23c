import type { Burrow, DiskUse } from '@dormouse/engine'
import type { SandboxRow } from '../store/sandbox-rows.ts'

/** Lets programs inside see the disk limits of their sandbox. Without `use` they see the last known use. */
export function showDisk(burrow: Burrow, { diskBytes: bytes, files }: SandboxRow['limits'], use?: DiskUse) {
  burrow.showDisk({ bytes, files, ...(use && { usedBytes: use.bytes, usedFiles: use.files }) })
}
