import { readText } from './controllers.ts'

/** What the memory of a cgroup consists of. */
export interface MemoryParts {
  readonly anonBytes: number
  /** Cached files, including shared memory. */
  readonly fileBytes: number
  readonly activeFileBytes: number
  readonly inactiveFileBytes: number
  readonly sharedBytes: number
}

/** Reads a memory.stat file; every part is 0 where there is none. */
export async function readMemoryParts(path: string): Promise<MemoryParts> {
  const text = await readText(path).catch(() => '')
  const stat = new Map(text.split('\n').map((line) => line.split(' ') as [string, string | undefined]))
  const read = (name: string, nameInV1 = name) =>
    Number(stat.get(`total_${nameInV1}`) ?? stat.get(name) ?? stat.get(nameInV1) ?? 0)
  return {
    anonBytes: read('anon', 'rss'),
    fileBytes: read('file', 'cache'),
    activeFileBytes: read('active_file'),
    inactiveFileBytes: read('inactive_file'),
    sharedBytes: read('shmem'),
  }
}
