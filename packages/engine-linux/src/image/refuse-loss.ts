import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError } from '@dormouse/contracts'
import type { ImageFile } from './image-file.ts'
import { getUint } from './message.ts'
import { findUnrestorable, readTree } from './sessions.ts'

const FILE_TYPE = 1
const TYPE_EVENTFD = 6n

/**
 * Refuses a dump in which CRIU silently left something out, or saved something that it cannot restore. Such a snapshot
 * must not replace the sandbox.
 * Pre: the processes are stopped. `pids` are all processes of the burrow, as the host sees them; `files` is its
 * files.img.
 */
export async function refuseLoss(imageDir: string, files: ImageFile, pids: readonly number[]): Promise<void> {
  const names = new Set(await readdir(imageDir))
  for (const pid of pids) {
    const inside = await pidInside(pid)
    // PID 1 is dormouse-init, which every burrow starts anew.
    if (inside === undefined || inside === 1 || names.has(`core-${inside}.img`)) continue
    throw refused(inside, 'it is not a descendant of the agent')
  }
  const lost = findUnrestorable(await readTree(imageDir))
  if (lost !== undefined) throw refused(lost.pid, 'it is an orphan adopted by a process other than the agent')
  if (files.records.some(({ message }) => getUint(message, FILE_TYPE) === TYPE_EVENTFD))
    await refuseSemaphores(pids)
}

/** CRIU restores every eventfd as a plain counter with 32 bits. */
async function refuseSemaphores(pids: readonly number[]): Promise<void> {
  for (const pid of pids) {
    const directory = `/proc/${pid}/fdinfo`
    // A process can be killed although it is stopped: then there is nothing to lose.
    for (const fd of await readdir(directory).catch(() => [])) {
      const info = await readFile(join(directory, fd), 'utf8').catch(() => '')
      const count = /^eventfd-count:\s*(?<count>[0-9a-f]+)$/m.exec(info)?.groups?.['count'] ?? '0'
      const isLost = /^eventfd-semaphore:\s*1$/m.test(info) || BigInt(`0x${count}`) > 0xffff_ffffn
      if (isLost)
        throw refused(
          (await pidInside(pid)) ?? 0,
          'it has an eventfd open that is a semaphore or has a count of more than 32 bits',
        )
    }
  }
}

/** Returns undefined when the process has ended. */
async function pidInside(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const last = /^NSpid:.*?(?<pid>\d+)$/m.exec(status)?.groups?.['pid']
  return last === undefined ? undefined : Number(last)
}

function refused(pid: number, reason: string): DormouseError {
  return new DormouseError('snapshot_refused', `Process ${pid} cannot be saved: ${reason}.`, {
    details: { pid, reason },
  })
}
