import { readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runCommand } from '../host/run-command.ts'
import { makeOwnedDirectory, removeAbandoned } from '../host/work-directory.ts'
import { listTemplates } from '../template/template-store.ts'
import { type Check, fail, ok, warn } from './check.ts'

const GIB = 1024 ** 3
/** A template build needs its archive and its tree at once. */
const DISK_MIN_BYTES = 3 * GIB
const DISK_COMFORTABLE_BYTES = 10 * GIB
/** One sandbox with default limits. */
const MEMORY_MIN_BYTES = 1 * GIB
const WORK_PREFIX = '.doctor-'

export async function checkStorage(dataDir: string): Promise<Check[]> {
  const directory = await nearestExisting(dataDir)
  return [await checkDisk(directory, dataDir), await checkReflink(directory), await checkMemory()]
}

async function checkDisk(directory: string, dataDir: string): Promise<Check> {
  const subject = { id: 'disk', title: 'Free disk', meaning: 'templates, sandboxes and their snapshots' }
  const { bavail, bsize } = await statfs(directory)
  const freeBytes = bavail * bsize
  const found = `${gib(freeBytes)} free for ${dataDir}`
  const mend = 'Free some space, or choose a larger disk with --data.'
  // An installed server must start on a full disk: an operator makes room by deleting sandboxes.
  const isSetUp = (await listTemplates(dataDir).catch(() => [])).length > 0
  if (freeBytes < DISK_MIN_BYTES && !isSetUp) return fail(subject, found, mend)
  return freeBytes < DISK_COMFORTABLE_BYTES ? warn(subject, found, mend) : ok(subject, found)
}

async function checkReflink(directory: string): Promise<Check> {
  const subject = {
    id: 'reflink',
    title: 'Reflinks on the data disk',
    meaning: 'snapshots clone memory files without copying bytes',
  }
  // An interrupted earlier check, from before the data directory existed, worked in a directory above it.
  for (let parent = dirname(directory); ; parent = dirname(parent)) {
    await removeAbandoned({ parent, prefix: WORK_PREFIX })
    if (parent === dirname(parent)) break
  }
  // The directory is not writable, or its disk is full or failing: the check says that it did not try.
  const work = await makeOwnedDirectory({ parent: directory, prefix: WORK_PREFIX }).catch(() => undefined)
  if (work === undefined)
    return warn(subject, 'not tried: no file can be made in the directory', 'Run as root.')
  try {
    const isWritten = await writeFile(join(work, 'from'), Buffer.alloc(65_536, 1)).then(
      () => true,
      () => false,
    )
    if (!isWritten) return warn(subject, 'not tried: the disk is full', 'Free some space.')
    const copy = await runCommand({ argv: ['cp', '--reflink=always', join(work, 'from'), join(work, 'to')] })
    if (copy.exitCode === 0) return ok(subject, 'supported')
    const mend =
      'Optional. Put the data directory on XFS or btrfs; elsewhere snapshots copy bytes and take longer.'
    return warn(subject, 'not supported by this file system', mend)
  } finally {
    await rm(work, { recursive: true })
  }
}

async function checkMemory(): Promise<Check> {
  const subject = {
    id: 'memory',
    title: 'Free memory',
    meaning: 'running sandboxes; sleeping ones need none',
  }
  const text = await readFile('/proc/meminfo', 'utf8')
  const availableBytes = Number(/^MemAvailable:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024
  const found = `${gib(availableBytes)} available`
  return availableBytes >= MEMORY_MIN_BYTES
    ? ok(subject, found)
    : warn(subject, found, 'End other programs, or give sandboxes less memory (`defaults.memoryBytes`).')
}

/** The data directory may not exist before the first set-up, but its file system does. */
async function nearestExisting(path: string): Promise<string> {
  for (let at = path; ; at = dirname(at)) {
    if (
      await statfs(at).then(
        () => true,
        () => false,
      )
    )
      return at
  }
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`
}
