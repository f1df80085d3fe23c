import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Where to make a directory that only this process uses, and the prefix of its name. */
export interface WorkPlace {
  readonly parent: string
  readonly prefix: string
}

/**
 * Makes `<parent>/<prefix><pid>-<start time>-<random>`. The name says which process uses the directory. So a later
 * process recognises what a killed one left, without a lock. Directories left that way are removed first.
 */
export async function makeOwnedDirectory(place: WorkPlace): Promise<string> {
  await removeAbandoned(place)
  const { pid } = process
  const name = `${place.prefix}${pid}-${startTimeOf(pid)}-${randomBytes(6).toString('hex')}`
  const directory = join(place.parent, name)
  await mkdir(directory, { mode: 0o700 })
  return directory
}

/** Removes directories of processes that have ended. Names of another form belong to other programs and stay. */
export async function removeAbandoned({ parent, prefix }: WorkPlace): Promise<void> {
  // The directory may not exist yet.
  for (const name of await readdir(parent).catch(() => [])) {
    if (!name.startsWith(prefix)) continue
    const owner = /^(?<pid>\d+)-(?<startTime>\d+)-[0-9a-f]{12}$/.exec(name.slice(prefix.length))?.groups
    if (owner === undefined || startTimeOf(Number(owner['pid'])) === owner['startTime']) continue
    // The next process that makes one tries again.
    await rm(join(parent, name), { recursive: true, force: true }).catch(() => {})
  }
}

/** In clock ticks since the machine started; undefined when there is no such process. See proc_pid_stat(5). */
function startTimeOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return undefined
  }
}
