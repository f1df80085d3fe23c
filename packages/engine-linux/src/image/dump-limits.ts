import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import { countFields, countRecords } from './count-records.ts'

/**
 * What a dump may hold. Reading one takes memory and time on the host for each of these, and a sandbox can have
 * millions: with all of them at their limits it takes a few hundred megabytes and a few seconds of a thread.
 */
export const DUMP_LIMITS = {
  processes: 4_096,
  threads: 16_384,
  /** Over all processes: a process may have 65,536. */
  'open descriptors': 65_536,
  'open files': 65_536,
  /** Over all processes: the kernel lets one have 65,530. */
  'memory mappings': 131_072,
  /** Runs of pages that are in memory, with pages between them that are not. */
  'pieces of memory': 524_288,
} as const

/** Longer images are not even counted. No record that CRIU writes for what is limited above is this long on average. */
const IMAGE_MAX_BYTES = 64 * 1024 ** 2

export type Counted = keyof typeof DUMP_LIMITS

const MM_VMAS = 14

/**
 * Before a dump, from what the kernel tells without being asked much. It may change until the processes are stopped.
 */
export async function requireFewHeld(pids: readonly number[]): Promise<void> {
  requireAtMost('processes', pids.length)
  let descriptors = 0
  let threads = 0
  for (const pid of pids) {
    // Since Linux 6.2 the size of this directory is how many descriptors there are; before, it is 0, and they are
    // counted in the dump.
    descriptors += (await stat(`/proc/${pid}/fd`).catch(() => undefined))?.size ?? 0
    // A directory has as many links as directories in it, and two.
    threads += Math.max(0, ((await stat(`/proc/${pid}/task`).catch(() => undefined))?.nlink ?? 2) - 2)
    requireAtMost('open descriptors', descriptors)
    requireAtMost('threads', threads)
  }
}

/** After a dump, from its images, before any of them is decoded. */
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
