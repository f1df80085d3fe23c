import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { countFields, countRecords } from './count-records.ts'

/**
 * Limits of a dump. Each of these costs memory and time on the host, and a sandbox can have millions. A dump with all
 * of them at the limit takes a few hundred megabytes and a few seconds of a thread.
 */
const DUMP_LIMITS = {
  processes: 4_096,
  threads: 16_384,
  /** Of all processes together. One process may have 65,536. */
  'open descriptors': 65_536,
  'open files': 65_536,
  /** Of all processes together. The kernel allows one process 65,530. */
  'memory mappings': 131_072,
  /** Runs of consecutive pages that are in memory. */
  'pieces of memory': 524_288,
} as const

/** Larger images are refused without counting. CRIU's records for the limited things are shorter on average. */
const IMAGE_MAX_BYTES = 64 * 1024 ** 2

export type Counted = keyof typeof DUMP_LIMITS

const MM_VMAS = 14

/**
 * Checks limits before a dump, from cheap information of the kernel. It may change until the processes are stopped. A
 * process that ends meanwhile counts as nothing.
 */
export async function requireFewHeld(pids: readonly number[]): Promise<void> {
  requireAtMost('processes', pids.length)
  let descriptors = 0
  let threads = 0
  for (const pid of pids) {
    // A process that has ended counts as nothing.
    // Since Linux 6.2 the size of this directory is the number of descriptors. Before that it is 0, and
    // requireSmallDump counts them.
    descriptors += (await stat(`/proc/${pid}/fd`).catch(() => undefined))?.size ?? 0
    // The link count of a directory is its number of subdirectories plus two.
    threads += Math.max(0, ((await stat(`/proc/${pid}/task`).catch(() => undefined))?.nlink ?? 2) - 2)
    requireAtMost('open descriptors', descriptors)
    requireAtMost('threads', threads)
  }
}

/** Checks limits after a dump, from its images, before any of them is decoded. */
export async function requireSmallDump(imageDir: string): Promise<void> {
  const names = await readdir(imageDir)
  const like = (pattern: RegExp) => names.filter((name) => pattern.test(name))
  requireAtMost('processes', like(/^mm-\d+\.img$/).length)
  requireAtMost('threads', like(/^core-\d+\.img$/).length)
  const count = async (what: Counted, images: readonly string[], countIn: (bytes: Buffer) => number) => {
    let found = 0
    for (const name of images) {
      const path = join(imageDir, name)
      const { size } = await stat(path)
      if (size > IMAGE_MAX_BYTES)
        throw refused(`${name} has ${size} bytes, at most ${IMAGE_MAX_BYTES} can be read`)
      found += countIn(await readFile(path))
      requireAtMost(what, found)
    }
  }
  await count('open files', ['files.img'], countRecords)
  await count('open descriptors', like(/^fdinfo-\d+\.img$/), countRecords)
  await count('memory mappings', like(/^mm-\d+\.img$/), (bytes) => countFields(bytes, MM_VMAS))
  await count('pieces of memory', like(/^pagemap-\d+\.img$/), countRecords)
}

function requireAtMost(what: Counted, count: number): void {
  const max = DUMP_LIMITS[what]
  if (count <= max) return
  const reason = `it has ${count} ${what}, at most ${max} can be saved`
  throw refused(reason, { what, count, max })
}

function refused(reason: string, details: Readonly<Record<string, unknown>> = {}): DormouseError {
  return new DormouseError('snapshot_refused', `The sandbox cannot be saved: ${reason}.`, {
    details: { reason, ...details },
  })
}
