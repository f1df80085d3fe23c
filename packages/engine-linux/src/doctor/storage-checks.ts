import { mkdtemp, readFile, rm, statfs, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runCommand } from '../host/run-command.ts'
import { type Check, fail, ok, warn } from './check.ts'

const GIB = 1024 ** 3
/** A template build needs its archive and its tree at once. */
const DISK_MIN_BYTES = 3 * GIB
const DISK_COMFORTABLE_BYTES = 10 * GIB
/** One sandbox with default limits. */
const MEMORY_MIN_BYTES = 1 * GIB

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
  if (freeBytes < DISK_MIN_BYTES) return fail(subject, found, mend)
  return freeBytes < DISK_COMFORTABLE_BYTES ? warn(subject, found, mend) : ok(subject, found)
}

async function checkReflink(directory: string): Promise<Check> {
  const subject = {
    id: 'reflink',
    title: 'Reflinks on the data disk',
    meaning: 'snapshots clone memory files without copying bytes',
  }
  const work = await mkdtemp(join(directory, '.doctor-')).catch(() => undefined)
  if (work === undefined) return warn(subject, 'not tried: the directory is not writable', 'Run as root.')
  try {
    await writeFile(join(work, 'from'), Buffer.alloc(65_536, 1))
    const copy = await runCommand({ argv: ['cp', '--reflink=always', join(work, 'from'), join(work, 'to')] })
    if (copy.exitCode === 0) return ok(subject, 'work')
    const mend =
      'Optional. Put the data directory on XFS or btrfs; elsewhere snapshots copy bytes and take longer.'
    return warn(subject, 'this file system cannot', mend)
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
    : warn(subject, found, 'End other programs, or give sandboxes less than the default of 1 GiB.')
}

/** The data directory may not exist before the first set-up; its file system does. */
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
