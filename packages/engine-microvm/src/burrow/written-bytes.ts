import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { MicrovmBurrowPaths } from '../host/microvm-layout.ts'

const BLOCK_BYTES = 512

/** What this burrow and those before it wrote: its disk, and the disks below it that were written by machines. */
export async function writtenBytes({ disk, disks }: MicrovmBurrowPaths): Promise<number> {
  const names = await readdir(disks).catch(() => [])
  const found = await Promise.all(
    [disk, ...names.filter(isWritten).map((name) => join(disks, name))].map((path) =>
      stat(path).catch(() => undefined),
    ),
  )
  return found.reduce((sum, one) => sum + (one?.blocks ?? 0) * BLOCK_BYTES, 0)
}

/** The root disk and the tools are there, too, when they came from another host. */
function isWritten(name: string): boolean {
  return name.endsWith('.qcow2')
}
