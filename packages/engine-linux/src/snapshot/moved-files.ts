import { readdir, readFile, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { LinuxBurrow } from '../burrow/linux-burrow.ts'

/** How the names of the files begin that each move of a live burrow made. A server that adopts it does not know them. */
const moves = new WeakMap<LinuxBurrow, Set<string>>()

export function rememberMove(burrow: LinuxBurrow, filesName: string): void {
  const names = moves.get(burrow) ?? new Set()
  moves.set(burrow, names.add(filesName))
}

/** How many moves have left files that are still there. */
export function countMoves(burrow: LinuxBurrow): number {
  return moves.get(burrow)?.size ?? 0
}

/**
 * Removes the files of earlier moves that no process maps any more: the programs have let go of that memory, and it
 * need not be written to the disk. Pre: no move is under way, so no process gets a mapping except from its parent.
 */
export async function removeUnusedMoves(burrow: LinuxBurrow): Promise<void> {
  const names = moves.get(burrow)
  if (names === undefined || names.size === 0) return
  const { memory } = burrow.paths
  const before = await burrow.pids()
  const mapped = new Set((await Promise.all(before.map(mappedInodes))).flat())
  // A new child may have mappings that its parent had a moment ago.
  const known = new Set(before)
  if ((await burrow.pids()).some((pid) => !known.has(pid))) return
  const files = await readdir(memory)
  for (const name of names) {
    const paths = files.filter((file) => file.startsWith(name)).map((file) => join(memory, file))
    const areMapped = await Promise.all(paths.map(async (path) => mapped.has(String((await stat(path)).ino))))
    await Promise.all(paths.filter((_path, index) => !areMapped[index]).map((path) => unlink(path)))
    if (!areMapped.includes(true)) names.delete(name)
  }
}

/** Of the files that a process maps, on any device. A process that has ended maps none. */
async function mappedInodes(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/maps`, 'latin1').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
    throw error
  })
  return text.split('\n').flatMap((line) => line.split(/ +/, 5)[4] ?? [])
}
