import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { VolumeMount } from '@dormouse/engine'

interface Mounted {
  readonly mountId: string
  readonly path: string
  /** The path in its own file system. */
  readonly root: string
}

/**
 * Refuses a snapshot while a process holds a lock on a volume: a lock is a promise to every sandbox that mounts the
 * volume, and a sleeping sandbox cannot keep it. Also refuses when the mount point of a volume was renamed: its open
 * files could not be found again.
 * Pre: the processes are stopped. `pids` are all of the burrow, as the host sees them.
 */
export async function refuseVolumeLocks(
  mounts: readonly VolumeMount[],
  { firstPid, pids }: { readonly firstPid: number; readonly pids: readonly number[] },
): Promise<void> {
  if (mounts.length === 0) return
  const mounted = await readMounts(firstPid)
  const ids = new Set<string>()
  for (const { volumeId, path } of mounts) {
    const found = mounted.find((mount) => mount.path === path && mount.root.endsWith(`/${volumeId}`))
    if (found === undefined)
      throw refused(`the directory that the volume at ${path} is mounted in was renamed`, {})
    ids.add(found.mountId)
  }
  for (const pid of pids) await refuseLocks(pid, ids)
}

async function refuseLocks(pid: number, mountIds: ReadonlySet<string>): Promise<void> {
  const directory = `/proc/${pid}/fdinfo`
  // A process can be killed although it is stopped: then it has no locks.
  for (const fd of await readdir(directory).catch(() => [])) {
    const info = await readFile(join(directory, fd), 'utf8').catch(() => '')
    const mountId = /^mnt_id:\s*(?<id>\d+)$/m.exec(info)?.groups?.id
    if (mountId === undefined || !mountIds.has(mountId) || !/^lock:/m.test(info)) continue
    // The path is only for the error.
    const path = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => 'a file')
    const inside = await pidInside(pid)
    throw refused(`process ${inside} holds a lock on ${path}, on a volume that others may use`, {
      pid: inside,
    })
  }
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
