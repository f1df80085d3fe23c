import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, type VolumeId } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'
import { z } from 'zod'
import { findMount } from './volume-files.ts'
import { findInVolume } from './walk-volume.ts'

/** A lock that a saved process holds on a file of a volume. It does not hold while the process sleeps. */
export const volumeLockSchema = z.strictObject({
  /** As the process sees it. */
  path: z.string(),
  /** `flock` locks and the others do not see each other. */
  kind: z.enum(['FLOCK', 'POSIX', 'OFDLCK']),
  type: z.enum(['READ', 'WRITE']),
  start: z.string(),
  end: z.string(),
  /** The file as it was: a change while the lock does not hold breaks what the lock promised. */
  inode: z.string(),
  sizeBytes: z.string(),
  modifiedNs: z.string(),
})

export type VolumeLock = z.output<typeof volumeLockSchema>

interface Mounted {
  readonly mountId: string
  readonly path: string
  /** The path in its own file system. */
  readonly root: string
}

/** `lock: 1: POSIX  ADVISORY  WRITE 1234 fe:00:56789 0 EOF`, see proc_locks(5). */
const LOCK =
  /(?<kind>FLOCK|POSIX|OFDLCK)\s+\S+\s+(?<type>READ|WRITE)\s+-?\d+\s+[0-9a-f]+:[0-9a-f]+:(?<inode>\d+)\s+(?<start>\d+)\s+(?<end>\d+|EOF)/

/**
 * Finds the locks that processes hold on volumes. Refuses a snapshot when the mount point of a volume was renamed: its
 * open files could not be found again. Pre: the processes are stopped. `pids` are all of the burrow, as the host sees
 * them.
 */
export async function findVolumeLocks(
  mounts: readonly VolumeMount[],
  { firstPid, pids }: { readonly firstPid: number; readonly pids: readonly number[] },
): Promise<VolumeLock[]> {
  if (mounts.length === 0) return []
  const mounted = await readMounts(firstPid)
  const ids = new Map<string, string>()
  for (const { volumeId, path } of mounts) {
    const found = mounted.find((mount) => mount.path === path && mount.root.endsWith(`/${volumeId}`))
    if (found === undefined)
      throw refused(`the directory that the volume at ${path} is mounted in was renamed`, {})
    ids.set(found.mountId, path)
  }
  const locks: VolumeLock[] = []
  for (const pid of pids) locks.push(...(await locksOf(pid, ids)))
  return locks
}

async function locksOf(pid: number, mountPaths: ReadonlyMap<string, string>): Promise<VolumeLock[]> {
  const directory = `/proc/${pid}/fdinfo`
  const locks: VolumeLock[] = []
  // A process can be killed although it is stopped: then it has no locks.
  for (const fd of await readdir(directory).catch(() => [])) {
    const info = await readFile(join(directory, fd), 'utf8').catch(() => '')
    const mountId = /^mnt_id:\s*(?<id>\d+)$/m.exec(info)?.groups?.['id']
    if (mountId === undefined || !mountPaths.has(mountId) || !/^lock:/m.test(info)) continue
    const path = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => 'a file')
    const found = await stat(`/proc/${pid}/fd/${fd}`, { bigint: true }).catch(() => undefined)
    const held = [...info.matchAll(/^lock:.*$/gm)].map(([line]) => LOCK.exec(line)?.groups)
    if (found === undefined || held.includes(undefined)) {
      const inside = await pidInside(pid)
      // A lease could not be given back.
      throw refused(`process ${inside} holds a lock on ${path}, on a volume`, { pid: inside })
    }
    // A file without a name is the sandbox's own after a restore, and so is the lock on it.
    if (found.nlink === 0n) continue
    for (const lock of held)
      locks.push(
        volumeLockSchema.parse({
          ...{ path, kind: lock?.['kind'], type: lock?.['type'], start: lock?.['start'], end: lock?.['end'] },
          ...{ inode: String(found.ino), sizeBytes: String(found.size), modifiedNs: String(found.mtimeNs) },
        }),
      )
  }
  return locks
}

/** The parts of a line of /proc/locks. */
type Held = Readonly<Record<string, string>>

interface RequireLocks {
  readonly locks: readonly VolumeLock[]
  readonly mounts: readonly VolumeMount[]
  readonly volumesDir: string
}

/**
 * Throws when locks cannot be given back to processes that wake: another process holds one that does not go with it
 * (`in_use`), or the file was changed while the lock did not hold (`conflict`). A lock on a file of a volume that is not
 * mounted any more concerns no other sandbox.
 */
export async function requireLocks({ locks, mounts, volumesDir }: RequireLocks): Promise<void> {
  if (locks.length === 0) return
  const held: Held[] = []
  for (const line of (await readFile('/proc/locks', 'utf8')).split('\n')) {
    const groups = LOCK.exec(line)?.groups
    // A process that waits for a lock does not hold it.
    if (groups !== undefined && !/^\d+:\s*->/.test(line)) held.push(groups)
  }
  for (const lock of locks) {
    const mount = findMount(mounts, lock.path)
    if (mount === undefined) continue
    const found = await findInVolume(join(volumesDir, mount.volumeId), lock.path.slice(mount.path.length))
    const isSame =
      String(found?.ino) === lock.inode &&
      String(found?.size) === lock.sizeBytes &&
      String(found?.mtimeNs) === lock.modifiedNs
    if (held.some((other) => conflicts(lock, other))) throw isHeld(lock, mount.volumeId)
    if (!isSame) throw isChanged(lock, mount.volumeId)
  }
}

/** Inode numbers of other file systems may be the same: then a lock is refused that could be given. */
function conflicts(lock: VolumeLock, other: Held): boolean {
  if (other['inode'] !== lock.inode || (other['kind'] === 'FLOCK') !== (lock.kind === 'FLOCK')) return false
  if (other['type'] === 'READ' && lock.type === 'READ') return false
  return Number(other['start']) <= endOf(lock.end) && Number(lock.start) <= endOf(other['end'])
}

function endOf(text: string | undefined): number {
  return text === undefined || text === 'EOF' ? Number.POSITIVE_INFINITY : Number(text)
}

function isHeld({ path }: VolumeLock, volumeId: VolumeId): DormouseError {
  return new DormouseError('in_use', `Another sandbox holds a lock on ${path}, which this one had.`, {
    hint: 'Wait until it gives the lock back, then wake the sandbox again. Nothing of the sandbox is lost.',
    details: { path, volumeId },
  })
}

function isChanged({ path }: VolumeLock, volumeId: VolumeId): DormouseError {
  return new DormouseError(
    'conflict',
    `${path} was changed while the sandbox slept, although it had a lock on the file.`,
    {
      hint: 'Detach the volume from the sandbox, so that the file looks deleted to its processes, or roll the sandbox back.',
      details: { path, volumeId },
    },
  )
}

/** See proc_pid_mountinfo(5). */
async function readMounts(pid: number): Promise<Mounted[]> {
  const text = await readFile(`/proc/${pid}/mountinfo`, 'utf8')
  return text.split('\n').flatMap((line) => {
    const [mountId, , , root, path] = line.split(' ')
    if (mountId === undefined || root === undefined || path === undefined) return []
    return { mountId, root: decodeOctal(root), path: decodeOctal(path) }
  })
}

/** The kernel writes blanks, line ends and backslashes in octal. */
function decodeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
}

async function pidInside(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^NSpid:.*?(?<pid>\d+)$/m.exec(status)?.groups?.['pid'] ?? 0)
}

function refused(reason: string, details: Readonly<Record<string, unknown>>): DormouseError {
  return new DormouseError('snapshot_refused', `The sandbox cannot be saved: ${reason}.`, {
    details: { ...details, reason },
  })
}
